"""Lets `python -m gateway` run the `multilane` command."""

from gateway.cli import main

main()
