"""How many files each kind of request passes through."""
