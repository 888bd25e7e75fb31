"""The ids, numbers and lanes that events carry, and the `error` event."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lanes.codec import encode

if TYPE_CHECKING:
    from lanes.errors import Fault


def new_id(prefix: str) -> str:
    """Return a new id: the prefix and 128 random bits in hex."""
    return f"{prefix}_{secrets.token_hex(16)}"


@dataclass(slots=True)
class Stamp:
    """The numbering of one response, from 0 and without gaps, and its lane (protocol.md 4).

    Attributes:
        stream_id: The lane; on the default lane (None) events have no `stream_id` key.
        number: The next event's `sequence_number`.
        tail: The end of each event's JSON, up to the number.
    """

    stream_id: str | None
    number: int = 0
    tail: bytes = field(init=False)

    def __post_init__(self) -> None:
        # The frame's check leaves no letters in it that JSON escapes (protocol.md 2).
        lane = b"" if self.stream_id is None else b',"stream_id":"%b"' % self.stream_id.encode()
        self.tail = lane + b',"sequence_number":'


def error_event(fault: Fault, stream_id: str | None) -> bytes:
    """Return the whole JSON of an `error` event (protocol.md 6)."""
    event: dict[str, Any] = {"type": "error", "status": fault.status}
    if stream_id is not None:
        event["stream_id"] = stream_id
    event["error"] = {
        "type": fault.type,
        "code": fault.code,
        "message": fault.message,
        "param": fault.param,
    }
    if fault.headers:
        event["error"]["headers"] = dict(fault.headers)
    return encode(event)
