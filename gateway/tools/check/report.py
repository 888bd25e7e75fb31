"""The tables that show a check's report on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console

_STYLES: Final = {"yes": "green", "partly": "yellow", "no": "red", "unknown": "dim"}


def render(console: Console, numbers: dict[str, Any]) -> None:
    """Print the numbers of a `CheckReport`."""
    table = Table("", "", "what was seen", title=numbers["url"])
    for row in numbers["checks"]:
        verdict = Text(row["verdict"], style=_STYLES[row["verdict"]])
        name = Text(row["name"], style="bold" if row["essential"] else "")
        table.add_row(name, verdict, Text(row["detail"]))
    console.print(table)
    if numbers["repairs"]:
        console.print(_repairs(numbers["repairs"]))
    elif any(row["name"] == "text" and row["verdict"] == "yes" for row in numbers["checks"]):
        console.print("nothing to repair")
    if numbers["works"]:
        console.print("lanes and steering work", style="green")
    else:
        lacking = [
            row["name"]
            for row in numbers["checks"]
            if row["essential"] and row["verdict"] not in ("yes", "partly")
        ]
        console.print(f"lanes or steering do not work: {', '.join(lacking)}", style="red")


def _repairs(rows: list[dict[str, Any]]) -> Table:
    table = Table("repaired by the gateway", "count")
    for row in rows:
        table.add_row(Text(row["what"]), f"{row['count']:,}")
    return table
