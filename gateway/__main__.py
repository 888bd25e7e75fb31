"""`python -m gateway` is `multilane`."""

from gateway.cli import main

main()
