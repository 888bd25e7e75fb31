"""Events that the gateway makes by itself, and the number and lane that every event carries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lanes.codec import encode

if TYPE_CHECKING:
    from lanes.errors import Fault


@dataclass(slots=True)
class Stamp:
    """The numbering of one response: from 0, without gaps, and its lane (protocol.md 4).

    `tail` ends each event's JSON up to the number; without a lane there is no `stream_id` key.
    """

    stream_id: str | None
    number: int = 0
    tail: bytes = field(init=False)

    def __post_init__(self) -> None:
        # The name was checked to be of letters that JSON need not escape (protocol.md 2).
        lane = b"" if self.stream_id is None else b',"stream_id":"%b"' % self.stream_id.encode()
        self.tail = lane + b',"sequence_number":'


def error_event(fault: Fault, stream_id: str | None) -> bytes:
    """The whole JSON of an `error` event (protocol.md 6)."""
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
