"""The conversation so far, in the form that the next backend accepts (D21).

`replay_form` is the data of one dialect; `replay` reads it and orders the items; `item_forms`
rewrites one item; `continuation` is what closes an input that ends with the assistant's words;
`makers` drops what only another backend can read, `refused_items` what the backend says it cannot,
and `unreadable` remembers that.
"""
