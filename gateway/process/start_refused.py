"""The error of a command whose start is refused."""

from __future__ import annotations

import click


class StartRefused(click.ClickException):
    """A refused start: one line and exit code 2."""

    exit_code = 2
