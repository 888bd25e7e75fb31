"""Every command line in the documentation is one that the command takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from gateway.cli import COMMANDS, LazyGroup

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(?:sh|console|bash)\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINES = [
    line.partition("multilane ")[2]
    for page in PAGES
    for block in BLOCK.findall(page.read_text("utf-8"))
    for line in block.splitlines()
    if "bin/multilane " in line
]


@pytest.mark.parametrize("line", LINES)
def test_it_is_taken(line: str) -> None:
    name, *arguments = shlex.split(line.removesuffix("&"), comments=True)
    given = [argument for argument in arguments if argument != "&"]
    assert name in COMMANDS
    group = LazyGroup()
    with click.Context(group) as context:
        command = group.get_command(context, name)
        assert command is not None
        command.make_context(name, given, parent=context)  # raises where it is not


def test_there_are_some() -> None:
    assert {line.split()[0] for line in LINES} >= {"serve", "rehearse", "load"}
