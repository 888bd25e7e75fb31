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
    renamed: dict[str, str] = {}
    readable = []
    for data in items:
        if MARK in data or PACKED in data or (key and _REASONING in data):
            item = decode(data)
            if not marked and maker.made(mark := item.get(MADE_BY)) and own_call_id(item):
                renamed[item["call_id"]] = mark["call_id"]
            data = encode(_readable(item, maker, key, marked=marked))
        readable.append(data)
    return [_answering(data, renamed) for data in readable] if renamed else readable


def own_call_id(item: Item) -> str:
    """Return the backend's own id of a call whose client got another one; empty if it did not."""
    mark = item.get(MADE_BY)
    own = mark.get("call_id") if isinstance(mark, dict) else None
    return own if isinstance(own, str) and isinstance(item.get("call_id"), str) else ""


def _answering(data: bytes, renamed: dict[str, str]) -> bytes:
    """Return an item with the backend's own id of the call that it is the output of."""
    if b'"call_id"' not in data:
        return data
    item = decode(data)
    call_id = item.get("call_id")
    own = renamed.get(call_id) if isinstance(call_id, str) else None
    return data if own is None else encode({**item, "call_id": own})


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
    if own := own_call_id(item):
        rest["call_id"] = own
    if mark.keys() == {"upstream", "dialect", "call_id"}:
        return rest
    return {**rest, MADE_BY: mark["inner"]} if "inner" in mark else rest


def without_own_keys(item: Item) -> Item:
    """Return an item without its mark, and without what only its maker can read."""
    dropped = (set(own_keys(item.get(MADE_BY))) - _COMMON) | {MADE_BY, "encrypted_content"}
    return {key: value for key, value in item.items() if key not in dropped}
