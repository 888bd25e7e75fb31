"""DECISIONS.md and the code agree: each number that code cites exists, each decision is cited."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

TOP = Path(__file__).parents[2]
TEXT = (TOP / "DECISIONS.md").read_text("utf-8")
DECISIONS = re.findall(r"^## (D\d+) ", TEXT, re.MULTILINE)
# Decisions that shape no line of code, and where they show instead.
ELSEWHERE = {
    "D11": "Makefile and constraints.txt",
}


def cited(*folders: str) -> dict[str, set[str]]:
    """Return which files under these folders cite each decision."""
    places: dict[str, set[str]] = {}
    for path in chain.from_iterable((TOP / folder).rglob("*.py") for folder in folders):
        for number in re.findall(r"\bD\d+\b", path.read_text("utf-8")):
            places.setdefault(number, set()).add(path.relative_to(TOP).as_posix())
    for place in ("docs/protocol.md", "Makefile", "CHANGELOG.md"):
        for number in re.findall(r"\bD\d+\b", (TOP / place).read_text("utf-8")):
            places.setdefault(number, set())
    return places


def test_decisions_are_numbered_without_gaps() -> None:
    assert [f"D{number}" for number in range(1, len(DECISIONS) + 1)] == DECISIONS


def test_each_cited_decision_exists() -> None:
    places = cited("gateway", "lanes", "steering", "tests", "bench", "examples")
    places.pop("D401", None)  # a rule of ruff
    assert {number: files for number, files in places.items() if number not in DECISIONS} == {}


def test_each_decision_is_cited_where_it_shapes_the_code() -> None:
    places = cited("gateway", "lanes", "steering")
    uncited = [number for number in DECISIONS if not places.get(number)]
    assert uncited == list(ELSEWHERE)


def test_each_file_that_a_decision_names_exists() -> None:
    named = re.findall(r"`((?:gateway|lanes|steering|tests|bench)/[\w./]+)`", TEXT)
    assert named
    assert [name for name in named if not (TOP / name).exists()] == []


def test_the_size_of_our_own_client_is_current() -> None:
    lines = re.search(r"\*It\s+costs\* (\d+) lines in `([\w/]+)`", TEXT)
    assert lines
    files = (TOP / lines[2]).rglob("*.py")
    counted = sum(len(path.read_text("utf-8").splitlines()) for path in files)
    assert abs(counted - int(lines[1])) <= 50, f"D2 says {lines[1]}, there are {counted}"
