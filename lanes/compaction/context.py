"""Pure: what a history with a compaction item comes to, as a backend is sent it (protocol.md 9).

A compaction item stands for all that came before it. Only a history in which nothing but messages
of others than the assistant comes before it is taken as it is: that is what `/v1/responses/compact`
returns, and what clients build that keep their messages themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from lanes.codec import decode, encode
from lanes.compaction.prompt import SUMMARY_INTRODUCTION
from lanes.history.entries import COMPACTION, answers, calls_of, invalid
from lanes.history.short_items import ShortItems
from lanes.stores.seals import MAX_SEAL, SEAL_MARK

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Item = dict[str, Any]

#: Bytes of an item that can hold a seal, with an id and other keys beside it.
_MAX_ITEM: Final = MAX_SEAL + (1 << 20)


class Compacted(msgspec.Struct):
    """What a compaction item of the gateway's holds, sealed.

    Attributes:
        before: Messages of the system and the user that are kept word for word.
        summary: The summary of the rest.
        after: What comes behind the summary: calls that wait for their outputs, and what the
            assistant had not answered yet.
    """

    before: list[msgspec.Raw]
    summary: str
    after: list[msgspec.Raw]


def opened(content: bytes) -> Compacted:
    """Return what was sealed."""
    return msgspec.json.decode(content, type=Compacted)


def latest(items: Sequence[bytes]) -> int | None:
    """Return the place of the latest compaction item, if there is one."""
    for place in range(len(items) - 1, -1, -1):
        if b'"compaction"' in items[place]:
            item = ShortItems().read(items[place])
            if item.get("type") == COMPACTION:
                return place
    return None


def seal_of(item: bytes) -> object:
    """Return the `encrypted_content` of a compaction item; of one that is too long, its mark."""
    if len(item) <= _MAX_ITEM:
        return decode(item).get("encrypted_content")
    return SEAL_MARK if b'"%b' % SEAL_MARK.encode() in item else None


def role_of(item: Item) -> str | None:
    """Return whose message an item is; None if it is none.

    Tools that the developer adds are the developer's as well.
    """
    kind, role = item.get("type", "message"), item.get("role")
    if kind == "message" or role == "developer":
        return role if isinstance(role, str) else None
    return None


def is_standing(item: Item) -> bool:
    """Return whether an item is the system's or the developer's: it holds for all that follows."""
    return role_of(item) in ("system", "developer")


def standing(items: Iterable[bytes]) -> list[bytes]:
    """Return the items of the system and the developer."""
    read = ShortItems().read
    return [data for data in items if is_standing(read(data))]


def is_window(items: Iterable[bytes]) -> bool:
    """Return whether there is a user's message and nothing that the assistant or a tool made."""
    roles = set(map(role_of, map(ShortItems().read, items)))
    return "user" in roles and roles <= {"user", "system", "developer"}


def expanded(before: Sequence[bytes], content: Compacted) -> list[bytes]:
    """Return what goes to a backend in place of a compaction item and all before it."""
    summary = summary_message(content.summary)
    after = [bytes(item) for item in content.after]
    if is_window(before):
        return [*before, summary, *(item for item in after if role_of(decode(item)) is None)]
    given, kept = standing(before), [bytes(item) for item in content.before]
    if given:
        kept = [*given, *(item for item in kept if role_of(decode(item)) == "user")]
    return [*kept, summary, *after]


def cut(before: Sequence[bytes]) -> list[bytes]:
    """Return what goes to a backend in front of a compaction item of its own."""
    return list(before) if is_window(before) else standing(before)


def summary_message(summary: str) -> bytes:
    """Return a summary as the message that a model reads."""
    part = {"type": "input_text", "text": SUMMARY_INTRODUCTION + summary}
    return encode({"type": "message", "role": "user", "content": [part]})


def is_summary(item: bytes) -> bool:
    """Return whether an item is the message of a summary."""
    return item.startswith(_SUMMARY_HEAD)


def check_outputs(items: Iterable[bytes]) -> None:
    """Raise ClientFault if an output answers a call that no item before it owns."""
    calls = set()
    for item in map(ShortItems().read, items):
        call = answers(item)
        if call is not None and call not in calls:
            kind = item["type"].replace("_", " ")
            raise invalid(f"No tool call found for {kind} with {call[0]} {call[1]}.")
        calls |= set(calls_of(item))


#: What the message of every summary begins with.
_SUMMARY_HEAD: Final = summary_message("").removesuffix(b'"}]}')
