"""A history that gets too long: what stands for its beginning, what is left out (protocol.md 9).

`context` is what a history with a compaction item comes to; `plan` says what is summarised and what
is kept; `summary` reads the summary that a backend writes; `truncation` says what can go, `fitting`
asks again without it; `compactor` puts them together.
"""
