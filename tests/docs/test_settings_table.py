"""docs/settings.md: its table is the one the code prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parents[2]
PLACE = TOP / "docs" / "settings.md"


def test_the_table_is_current() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "gateway.config.setting_words"],
        cwd=TOP,
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout
    _, opened, rest = PLACE.read_text("utf-8").partition("<!-- settings -->\n")
    table, closed, _ = rest.partition("<!-- /settings -->")
    assert opened, "no table between <!-- settings --> and <!-- /settings -->"
    assert closed, "no table between <!-- settings --> and <!-- /settings -->"
    assert table.strip() == printed.strip(), (
        "put in what `python -m gateway.config.setting_words` prints"
    )
