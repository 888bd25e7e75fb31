"""Input that waits for a response. Knows no lanes."""
