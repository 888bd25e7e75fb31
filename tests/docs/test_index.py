"""docs/README.md lists every document."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_every_document_is_listed() -> None:
    text = (DOCS / "README.md").read_text("utf-8")
    listed = set(re.findall(r"^\| \[[^]]+\]\(([^)]+)\)", text, re.MULTILINE))
    assert {path.name for path in DOCS.glob("*.md")} - {"README.md"} <= listed
