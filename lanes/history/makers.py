"""Who made an item, where only its maker can take all of it back (protocol.md 3, D40)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

#: The key of an item that names its maker; clients send it back with the item.
MADE_BY: Final = "made_by"
#: What the JSON of every item with that key holds.
MARK: Final = b'"made_by"'


@dataclass(slots=True, eq=False)
class Maker:
    """A backend as the maker of items.

    Attributes:
        upstream: The name of its upstream.
        dialect: How it speaks.
        reasoning_key: The key under which it last sent reasoning, if it has a choice of keys.
    """

    upstream: str
    dialect: str
    reasoning_key: str = ""

    def mark(self, **more: Any) -> dict[str, Any]:
        """Return the value of `MADE_BY` for an item of its own; `more` is what it needs to know."""
        return {"upstream": self.upstream, "dialect": self.dialect, **more}

    def place(self, dialect: str) -> str:
        """Return what logs call it, where it speaks this dialect."""
        return dialect if self.upstream in ("", "default") else f"{self.upstream}: {dialect}"

    def made(self, mark: object) -> bool:
        """Return whether a value of `MADE_BY` is its own."""
        return isinstance(mark, dict) and (mark.get("upstream"), mark.get("dialect")) == (
            self.upstream,
            self.dialect,
        )
