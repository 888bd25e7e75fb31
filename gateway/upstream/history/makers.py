"""A history without what only other backends can read (D40). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lanes.codec import decode, encode
from lanes.history.makers import MADE_BY, MARK, PACKED, own_keys, unpacked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.history.makers import Maker

    Item = dict[str, Any]

#: What every item has; a mark cannot name these as a vendor's own.
_COMMON: Final = frozenset(
    {"type", "id", "role", "content", "summary", "call_id", "name", "output"}
)
_REASONING: Final = b'"reasoning"'


def readable_items(items: Sequence[bytes], maker: Maker, *, marked: bool) -> list[bytes]:
    """Return the items as the backend `maker` can take them; those without a mark stay as they are.

    What another backend sealed or signed is left out, the plain text of its reasoning is not.

    Args:
        items: The history, each item as JSON.
        maker: The backend that is asked.
        marked: Whether its dialect reads the marks, and wants reasoning of others marked as its
            own, with the key that it uses.
    """
    key = maker.reasoning_key if marked else ""
    return [
        encode(_readable(decode(data), maker, key, marked=marked))
        if MARK in data or PACKED in data or (key and _REASONING in data)
        else data
        for data in items
    ]


def _readable(item: Item, maker: Maker, key: str, *, marked: bool) -> Item:
    if not marked and maker.made(mark := item.get(MADE_BY)):
        return _as_it_came(item, mark)
    if item.get("type") == "reasoning":
        item = unpacked(item)
    mark = item.get(MADE_BY)
    if marked and maker.made(mark):
        return item
    if mark is not None:
        item = without_own_keys(item)
    if key and item.get("type") == "reasoning":
        item[MADE_BY] = maker.mark(key=key)
    return item


def _as_it_came(item: Item, mark: Any) -> Item:
    """Return an item as its maker sent it, which may be a gateway with marks of its own."""
    rest = {key: item[key] for key in item if key != MADE_BY}
    return {**rest, MADE_BY: mark["inner"]} if "inner" in mark else rest


def without_own_keys(item: Item) -> Item:
    """Return an item without its mark, and without what only its maker can read."""
    dropped = (set(own_keys(item.get(MADE_BY))) - _COMMON) | {MADE_BY, "encrypted_content"}
    return {key: value for key, value in item.items() if key not in dropped}
