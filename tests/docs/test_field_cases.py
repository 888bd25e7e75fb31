"""docs/field-cases.md has a row for each case that a test cites, and names the tests that do."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

TOP = Path(__file__).parents[2]
TEXT = (TOP / "docs" / "field-cases.md").read_text("utf-8")
ROWS = {
    line.split("|")[1].strip(): re.findall(r"`([\w/]+\.py)`", line.split("|")[4])
    for line in TEXT.splitlines()
    if re.match(r"\| [BC]\d", line)
}


def cited() -> dict[str, set[str]]:
    """Return which test files cite each case, by its id or in the name of a test."""
    places: dict[str, set[str]] = defaultdict(set)
    for path in (TOP / "tests").rglob("*.py"):
        if path == Path(__file__):
            continue
        text = path.read_text("utf-8")
        for case in re.findall(r"\b[BC]\d\d\b|(?<=\bdef test_)[bc]\d\d(?=_)", text):
            places[case.upper()].add(path.relative_to(TOP / "tests").as_posix())
    return places


def test_each_cited_case_has_a_row() -> None:
    assert set(cited()) <= set(ROWS)


def test_each_row_names_tests_that_cite_it() -> None:
    places = cited()
    for case, tests in ROWS.items():
        assert tests, case
        assert set(tests) <= places[case], case


def test_each_cited_section_exists() -> None:
    sections = set(re.findall(r"^## (\d+) ", TEXT, re.MULTILINE))
    for path in (TOP / "tests").rglob("*.py"):
        for section in re.findall(r"field-cases\.md (\d+)", path.read_text("utf-8")):
            assert section in sections, path
