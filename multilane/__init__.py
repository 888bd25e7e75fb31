"""The name that the project is installed by: its version, and `python -m multilane`."""

__version__ = "0.1.0"
