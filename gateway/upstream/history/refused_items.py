"""What of a history a backend refuses to read, and the history without it (D23). Pure."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from gateway.upstream.history.item_forms import is_of_assistant
from gateway.upstream.history.makers import without_own_keys
from lanes.codec import decode, encode
from lanes.history.makers import MADE_BY, MARK
from lanes.stream.backend_errors import ReportedFault

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.errors import UpstreamFault

    Item = dict[str, Any]


class RefusedPart(StrEnum):
    """What the backend cannot read any more.

    SEALED  what it, or another backend, encrypted or signed
    IDS     the ids of items, or of a response, by which it looks something up
    """

    SEALED = "encrypted reasoning"
    IDS = "ids of earlier items"


#: Proxies say 500 of what a backend refuses; an error event need not say any.
_STATUSES: Final = (400, 404, 409, 422, 500)
_SEALED: Final = re.compile(
    r"encrypted"
    r"|(?:in ?valid|not valid|corrupt\w*|mismatch\w*|expired|(?:verify|decrypt|decode|parse))"
    r".{0,60}\bsignature|\bsignature.{0,60}(?:in ?valid|not valid|corrupt|mismatch|verif|expired)"
    r"|(?:decrypt|unseal).{0,40}(?:reasoning|thinking|thought)",
    re.I | re.S,
)
_IDS: Final = re.compile(
    r"\bitem\b.{0,30}\bid\b.{0,600}(?:not.{0,8}found|no longer|does not exist|expired|unknown)"
    r"|\bitems? (?:are|is) not persisted"
    r"|previous.?response.{0,600}not.{0,8}found"
    r"|without its required (?:following|'?reasoning|preceding)?",
    re.I | re.S,
)


def refused_part(fault: UpstreamFault) -> RefusedPart | None:
    """Return what of the history the fault is about; None if it is about something else."""
    if fault.status not in _STATUSES and not isinstance(fault, ReportedFault):
        return None
    words = f"{fault.code or ''} {fault.message}"
    if _SEALED.search(words):
        return RefusedPart.SEALED
    return RefusedPart.IDS if _IDS.search(words) else None


def without(items: Sequence[bytes], part: RefusedPart) -> list[bytes] | None:
    """Return the items without that part; None if no backend was sent any of it."""
    kept: list[bytes] = []
    changed = False
    for at, data in enumerate(items):
        if not may_hold(data, part):
            kept.append(data)
            continue
        item = decode(data)
        rest = without_part(item, part)
        changed = changed or (rest != item and not _is_dangling(item, items[at + 1 : at + 2]))
        if rest is not None:
            kept.append(data if rest == item else encode(rest))
    return kept if changed else None


def may_hold(data: bytes, part: RefusedPart) -> bool:
    """Return whether the JSON of an item may have that part."""
    return any(word in data for word in _WORDS[part])


def without_part(item: Item, part: RefusedPart) -> Item | None:
    """Return an item without that part; the same value if it has none, None if nothing is left."""
    return _LEFT_OUT[part](item)


def _is_dangling(item: Item, following: Sequence[bytes]) -> bool:
    """Return whether the item is reasoning that no item of the assistant's follows (D21)."""
    return item.get("type") == "reasoning" and not (
        following and is_of_assistant(decode(following[0]))
    )


def _unsealed(item: Item) -> Item | None:
    """Return an item without what is sealed; a compaction is nothing without it, so it stays."""
    rest = without_own_keys(item) if MADE_BY in item else item
    if rest.get("type") == "reasoning" and rest.get("encrypted_content"):
        rest = {key: value for key, value in rest.items() if key != "encrypted_content"}
        return rest if rest.get("content") or rest.get("summary") else None
    return rest


def _unnamed(item: Item) -> Item | None:
    """Return an item of the assistant's that the backend has to take by its words alone."""
    kind = item.get("type")
    if kind == "reasoning":
        return None
    if not is_of_assistant(item) or kind in _ANSWERED_BY_ID:
        return item
    return {key: value for key, value in item.items() if key != "id"}


#: What answers these names their `id`; a reference is nothing else.
_ANSWERED_BY_ID: Final = frozenset(
    {"mcp_approval_request", "local_shell_call", "item_reference", "compaction"}
)
_LEFT_OUT: Final[dict[RefusedPart, Callable[[Item], Item | None]]] = {
    RefusedPart.SEALED: _unsealed,
    RefusedPart.IDS: _unnamed,
}
_WORDS: Final = {
    RefusedPart.SEALED: (b'"encrypted_content"', MARK),
    RefusedPart.IDS: (b'"id"', b'"reasoning"'),
}
