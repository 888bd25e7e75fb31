"""One data file for each known backend."""
