"""Micro benches behind the figures of DECISIONS.md (see bench/README.md)."""
