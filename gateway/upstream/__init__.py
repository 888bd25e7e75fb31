"""Backends: which one answers, how it speaks, and how it is reached."""
