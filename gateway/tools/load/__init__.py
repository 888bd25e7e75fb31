"""`multilane load`: drives a gateway with many lanes, measures and checks the answers."""
