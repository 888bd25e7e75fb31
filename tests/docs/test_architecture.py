"""docs/architecture.md names files that exist, and every package of the code."""

from __future__ import annotations

import re
from pathlib import Path

TOP = Path(__file__).parents[2]
TEXT = (TOP / "docs" / "architecture.md").read_text("utf-8")
PATH = re.compile(r"`((?:gateway|lanes|steering|tests|docs|bench|examples|deploy)/[\w./-]*)`")


def test_every_named_file_exists() -> None:
    named = {name for name in PATH.findall(TEXT) if "NAME" not in name}
    assert len(named) > 80
    assert [name for name in sorted(named) if not (TOP / name).exists()] == []


def test_every_package_is_a_row_of_the_rooms() -> None:
    rooms = set(re.findall(r"^\| `([\w/]+)/` \|", TEXT, re.MULTILINE))
    packages = {
        path.parent.relative_to(TOP).as_posix()
        for top in ("multilane", "gateway", "lanes", "steering")
        for path in (TOP / top).rglob("__init__.py")
    }
    assert rooms == packages


def test_the_words_are_sorted_and_explained_once() -> None:
    section = TEXT.partition("## Words\n")[2].partition("\n## ")[0]
    words = [line.split("|")[1].strip().lower() for line in section.splitlines()[3:] if line]
    assert words == sorted(set(words))
