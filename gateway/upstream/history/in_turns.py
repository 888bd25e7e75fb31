"""Input items in an order that a strict chat template behind `/responses` accepts (D39). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Raw

from gateway.upstream.history.continuation import BEGIN_TEXT
from lanes.codec import decode

if TYPE_CHECKING:
    from collections.abc import Sequence

    Item = dict[str, Any]

_BETWEEN = "\n\n"
_SYSTEM = ("system", "developer")


def in_turns(items: Sequence[Item | Raw], *, system: bool) -> list[Item]:
    """Return the items with the user beginning, and never speaking twice in a row.

    What the system says after the top the user says; without `system` all of it.
    """
    read = [decode(bytes(item)) if isinstance(item, Raw) else item for item in items]
    top = next((at for at, item in enumerate(read) if item.get("role") not in _SYSTEM), len(read))
    top = top if system else 0
    spoken = [_of_user(item) if item.get("role") in _SYSTEM else item for item in read[top:]]
    if spoken and spoken[0].get("role") != "user":
        spoken.insert(0, {"type": "message", "role": "user", "content": BEGIN_TEXT})
    groups: list[list[Item]] = []
    for item in spoken:
        if groups and item.get("role") == groups[-1][-1].get("role") == "user":
            groups[-1].append(item)
        else:
            groups.append([item])
    return [*read[:top], *(_one(group) if len(group) > 1 else group[0] for group in groups)]


def _of_user(item: Item) -> Item:
    return {**item, "role": "user"}


def _one(group: list[Item]) -> Item:
    contents = [item.get("content") or "" for item in group]
    content: str | list[Any]
    if all(isinstance(one, str) for one in contents):
        content = _BETWEEN.join(contents)
    else:
        content = []
        for one in contents:
            content += [{"type": "input_text", "text": one}] if isinstance(one, str) else one
    return {"type": "message", "role": "user", "content": content}
