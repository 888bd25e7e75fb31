"""The detection of a backend's dialect, with as few requests as possible (D24).

`rules` is pure: facts about a backend -> its dialect. `detector` sends the requests that collect
the facts, and keeps the result.
"""
