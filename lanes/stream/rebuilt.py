"""The events of a response that is over, made again from its final object (protocol.md 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.codec import decode, encode
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
    begun = encode({**response, **_LATER})
    events = [
        b'{"type":"response.%b","response":%b' % (kind, begun)
        for kind in (b"created", b"in_progress")
    ]
    for index, item in enumerate(response["output"]):
        _rebuild(item, index, events.append)
    end = _ENDS.get(response["status"], "incomplete").encode()
    events.append(b'{"type":"response.%b","response":%b' % (end, final))
    return events


def _rebuild(final: dict[str, Any], index: int, emit: Emit) -> None:
    item = Item(final, index, final["id"], final.get("call_id", ""), encrypted=True)
    item.start(emit)
    item.finish(final)
    item.close(emit, "incomplete" if final.get("status") in _UNFINISHED else "completed")
