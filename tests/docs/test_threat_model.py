"""Each line of the threat model names tests that show its bound, and these exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
TEXT = (TOP / "SECURITY.md").read_text("utf-8")
#: From whom something may come, as the model's sections are called.
SIDES = ("Before the key", "Behind the key", "From a backend", "From the store", "By the operator")


def rows(side: str) -> list[list[str]]:
    """The lines of a section's table, as cells."""
    section = re.search(rf"^### {side}\n(.*?)(?=^##|\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert section is not None, f"no section {side!r}"
    lines = [line for line in section[1].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@cache
def functions_of(path: str) -> set[str]:
    tree = ast.parse((TOP / path).read_text("utf-8"))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {node.name for node in tree.body if isinstance(node, kinds)}


@pytest.mark.parametrize("side", SIDES)
def test_each_line_names_tests_that_exist(side: str) -> None:
    assert len(rows(side)) >= 5
    for threat, bound, tests in rows(side):
        assert threat
        assert bound
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", tests)
        assert named, threat
        assert len(named) == tests.count("`") // 2, threat
        for path, name in named:
            assert name in functions_of(path), f"{path}::{name}"
