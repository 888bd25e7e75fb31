"""The events of a response that is over, made again from its final object (protocol.md 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.codec import decode, encode
from lanes.stream.item_schema import Seal
from lanes.stream.items import Item

if TYPE_CHECKING:
    from lanes.stream.parts import Emit

#: What a response does not have yet when it begins.
_LATER: dict[str, Any] = {
    "status": "in_progress",
    "output": [],
    "usage": None,
    "error": None,
    "incomplete_details": None,
    "completed_at": None,
}
#: The events that end a response, by its status; there is none of a cancelled one's own.
_ENDS = {"completed": "completed", "failed": "failed"}
_UNFINISHED = frozenset({"incomplete", "in_progress", "searching", "interpreting", "generating"})


def rebuilt_events(final: bytes) -> list[bytes]:
    """Return all events of a response, each text as one delta.

    Each is JSON without its closing brace, to be numbered, as a run emits it. Ids, items and the
    final object are those of the response.
    """
    response = decode(final)
    statuses = ("queued", "in_progress") if response.get("background") else ("in_progress",)
    events = []
    for kind, status in zip(("created", *statuses), (statuses[0], *statuses), strict=True):
        begun = encode({**response, **_LATER, "status": status})
        events.append(b'{"type":"response.%b","response":%b' % (kind.encode(), begun))
    for index, item in enumerate(response["output"]):
        _rebuild(item, index, lambda *pieces: events.append(b"".join(pieces)))
    events.append(end_event(final))
    return events


def end_event(final: bytes) -> bytes:
    """Return the terminal event of a response, as `rebuilt_events` does."""
    end = _ENDS.get(decode(final)["status"], "incomplete").encode()
    return b'{"type":"response.%b","response":%b' % (end, final)


def _rebuild(final: dict[str, Any], index: int, emit: Emit) -> None:
    seal = Seal(shown=True, done=True)
    item = Item(final, index, final["id"], final.get("call_id", ""), seal)
    item.start(emit)
    item.finish(final)
    item.close(emit, "incomplete" if final.get("status") in _UNFINISHED else "completed")
