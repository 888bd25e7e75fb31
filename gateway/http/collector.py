"""A response as one JSON object: its last event says it all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from gateway.client.outbox import PacedStreams
from lanes.codec import encode

if TYPE_CHECKING:
    from lanes.errors import Fault
    from lanes.events import Stamp


class _Ended(msgspec.Struct):
    """A terminal event, of which only the response object is wanted."""

    response: msgspec.Raw


_ended = msgspec.json.Decoder(_Ended).decode


class Said(msgspec.Struct):
    """What a response object says of itself."""

    id: str
    status: str
    background: bool = False


#: Reads that of a response object.
said = msgspec.json.Decoder(Said).decode


def response_in(body: bytes) -> bytes:
    """Return the response object in a terminal event, which is JSON without its last brace."""
    return bytes(_ended(body + b"}").response)


class Collector(PacedStreams):
    """Implements `lanes.ports.Outbox` for an answer without a stream: it keeps one event, the last.

    Attributes:
        fault: Why there is no response.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fault: Fault | None = None
        self._last: tuple[bytes, ...] = ()

    def put(self, stamp: Stamp, body: bytes, *more: bytes) -> None:
        """Keep an event in place of the one before.

        Args:
            stamp: The numbering of its response.
            body: Its JSON without the closing brace.
            more: The rest of that, if it was made in pieces.
        """
        stamp.number += 1
        self._last = (body, *more)

    def put_event(self, stamp: Stamp, event: dict[str, Any]) -> None:
        """Encode an event and keep it (see `Outbox.put_event`)."""
        self.put(stamp, encode(event)[:-1])

    def error(self, fault: Fault, stream_id: str | None) -> None:  # noqa: ARG002  (no lanes here)
        """Refuse the create."""
        self.fault = fault

    def response(self) -> bytes:
        """Return the response object, once the worker is done and there is no `fault`."""
        return response_in(b"".join(self._last))
