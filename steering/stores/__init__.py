"""The stores of submissions: what became of each outlives its socket and its process."""
