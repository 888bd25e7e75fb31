"""`multilane load`: drives a gateway over many lanes, measures and checks the answers."""
