"""Who made an item, where only its maker can take all of it back (protocol.md 3, D40)."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lanes.codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The key of an item that names its maker; clients send it back with the item.
MADE_BY: Final = "made_by"
#: What the JSON of every item with that key holds.
MARK: Final = b'"made_by"'


#: How a packed item begins, and its mark in JSON.
_PACKED: Final = "multilane.1."
PACKED: Final = b'"multilane.1.'


def own_keys(mark: object) -> list[str]:
    """Return the keys that a mark says are its maker's own."""
    keys = mark.get("keys") if isinstance(mark, dict) else None
    return [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []


def packed(item: Mapping[str, Any]) -> str:
    """Return reasoning with its mark as one text, for clients that keep no other key.

    It holds nothing that the item does not say itself, so it is not encrypted.
    """
    kept = {"content", "summary", MADE_BY, *own_keys(item[MADE_BY])}
    data = encode({key: item[key] for key in item if key in kept})
    return _PACKED + urlsafe_b64encode(data).decode()


def unpacked(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item of reasoning with what is packed in it; as it is if nothing is."""
    value = item.get("encrypted_content")
    if not isinstance(value, str) or not value.startswith(_PACKED):
        return item
    rest = {key: item[key] for key in item if key != "encrypted_content"}
    try:
        fields = decode(urlsafe_b64decode(value.removeprefix(_PACKED)))
    except ValueError:
        return rest
    if not isinstance(fields, dict) or not isinstance(fields.get(MADE_BY), dict):
        return rest
    told = {key: value for key, value in rest.items() if value not in (None, [], "")}
    return {"type": "reasoning", "summary": [], **fields, **told}


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
