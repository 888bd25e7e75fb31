"""Several backends as one upstream: which takes a model, in which turn, and who steps in."""
