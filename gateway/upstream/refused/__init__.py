"""Keys that a backend refuses: read from its error, left out or renamed, remembered (D42).

`reading` finds the key in the error, `request` takes it out of a request, and `memory` knows what
helped. A dialect may name refusals from the start.
"""
