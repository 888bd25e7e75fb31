"""Lets `python -m multilane` run the `multilane` command."""

from gateway.cli import main

main()
