"""Server-sent events: what they look like, and how they leave for one client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from gateway.client.outbox import PacedStreams
from gateway.telemetry.traffic import Traffic
from lanes.codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.errors import Fault
    from lanes.events import Stamp

#: How the JSON of nearly every event begins.
_HEAD = b'{"type":"'
#: An event: its lines before the JSON, the JSON, its number.
_EVENT = b'%b%b,"sequence_number":%d}\n\n'
_CHUNK = b"%x\r\n%b\r\n"
_CRLF = b"\r\n"
#: Chunks of fewer bytes than this have their heads prepared.
_PREPARED = 2048
_HEADS = tuple(b"%x\r\n" % size for size in range(_PREPARED))
#: How no JSON begins.
_NONE = b"\0"
#: More queued bytes than this do not wait for the turn to end (see `SocketOutbox`).
_MANY_BYTES = 64 * 1024
#: A comment: it keeps proxies and clients from taking silence for the end.
_HEARTBEAT = b": keep-alive\n\n"


def sse_event(stamp: Stamp, body: bytes) -> bytes:
    """Return an event with its number and its lines; `body` is its JSON without the last brace."""
    number = stamp.number
    stamp.number = number + 1
    return _EVENT % (_lines(body)[0], body, number)


def _lines(body: bytes) -> tuple[bytes, bytes]:
    """Return what an event has before its JSON, and how the JSON of all of the same type begins."""
    end = body.find(b'"', len(_HEAD))
    name = body[len(_HEAD) : end]
    if body.startswith(_HEAD) and b"\\" not in name:
        return b"event: %b\ndata: " % name, body[: end + 1]
    # Its type comes late, or holds what JSON escapes. A line cannot hold all that a type can.
    odd: str = decode(body + b"}")["type"]
    name = "".join(letter for letter in odd if letter.isprintable()).encode()
    return b"event: %b\ndata: " % name, _NONE


class EventSource(Protocol):
    """The events of one response on their way to one client.

    Attributes:
        decided: Set once the first event is there, or the fault instead of any.
        over: Set once there will be no more events.
    """

    decided: anyio.Event
    over: anyio.Event

    @property
    def fault(self) -> Fault | None:
        """Why there is no response."""

    def open(self, writer: SseWriter) -> None:
        """Let the events leave by this writer."""

    def flush(self) -> None:
        """Hand all that is there to the writer now."""

    def pause(self) -> None:
        """Slow down: the client is too far behind."""

    def resume(self) -> None:
        """Go on: the client caught up."""

    def leave(self) -> None:
        """Send no more: the client is gone, or has all."""


class SseWriter:
    """Writes events to one client as chunks (RFC 9112, 7.1), and comments into silence.

    Args:
        send: Takes the bytes.
        heartbeat: Seconds of silence until there is a comment at the latest.
        sent: Where the events are counted.
    """

    def __init__(
        self, send: Callable[[bytes], None], heartbeat: float, sent: Traffic | None = None
    ) -> None:
        self.send = send
        self.sent = sent or Traffic()
        #: Whether nothing was written for a while; what counts is that it is cheap to deny.
        self.silent = False
        #: Whether the client is behind, so that it is not silence when nothing comes.
        self.full = False
        self._pause = heartbeat / 2
        self._loop = asyncio.get_running_loop()
        self._beat = self._loop.call_later(self._pause, self._on_beat)

    def write(self, events: Sequence[bytes], size: int) -> None:
        """Write whole events, whose length is `size` bytes."""
        self.silent = False
        self.sent.events += len(events)
        self.sent.bytes += size
        self.send(_CHUNK % (size, b"".join(events)))

    def close(self) -> None:
        """Send no more comments."""
        self._beat.cancel()

    def _on_beat(self) -> None:
        """Send a comment if nothing was written since the last time."""
        if self.silent and not self.full:
            self.send(_CHUNK % (len(_HEARTBEAT), _HEARTBEAT))
        self.silent = True
        self._beat = self._loop.call_later(self._pause, self._on_beat)


class SseOutbox(PacedStreams):
    """Implements `lanes.ports.Outbox` and `EventSource`: a response for the client that asked.

    What is first, an event or a fault, decides the answer's status, so nothing leaves before
    `open`. From then on events leave at the end of the event loop's turn (D12, D44).
    """

    def __init__(self) -> None:
        super().__init__()
        self.decided = anyio.Event()
        self.over = anyio.Event()
        self.fault: Fault | None = None
        self._writer: SseWriter | None = None
        self._soon = asyncio.get_running_loop().call_soon
        self._events: list[bytes] = []
        self._size = 0
        # Of the event before this one: nearly always its type is the same.
        self._lines = b""
        self._type = _NONE
        self._begin = slice(len(_NONE))  # a ready slice costs half of `startswith`

    def put(self, stamp: Stamp, body: bytes, *more: bytes) -> None:
        """Add the number to an event and queue it, in one step: numbers follow the wire.

        Args:
            stamp: The numbering of its response.
            body: Its JSON without the closing brace.
            more: The rest of that, if it was made in pieces.
        """
        if more:
            body = b"".join((body, *more))
        number = stamp.number
        stamp.number = number + 1
        if body[self._begin] != self._type:
            self._lines, self._type = _lines(body)
            self._begin = slice(len(self._type))
        event = _EVENT % (self._lines, body, number)
        if not self._events:
            self._soon(self.flush)
        self._events.append(event)
        self._size += len(event)
        if self._size > _MANY_BYTES:
            self.flush()

    def put_event(self, stamp: Stamp, event: dict[str, Any]) -> None:
        """Encode an event and queue it (see `Outbox.put_event`)."""
        self.put(stamp, encode(event)[:-1])

    def error(self, fault: Fault, stream_id: str | None) -> None:  # noqa: ARG002  (no lanes here)
        """Refuse the create: a worker says so before any event, or never."""
        self.fault = fault
        self.decided.set()

    def open(self, writer: SseWriter) -> None:
        """Let the queued events leave, and all that follow."""
        self._writer = writer
        self.flush()

    def flush(self) -> None:
        """Hand all that is queued to the writer now, in one write."""
        writer, events, size = self._writer, self._events, self._size
        if events and writer is not None:
            # As `SseWriter.write` does, but without the call: this is the token path.
            writer.silent = False
            writer.sent.events += len(events)
            writer.sent.bytes += size
            if size < _PREPARED and len(events) == 1:
                writer.send(b"".join((_HEADS[size], events[0], _CRLF)))
            else:
                writer.send(_CHUNK % (size, b"".join(events)))
            events.clear()
            self._size = 0
        elif writer is None:
            self.decided.set()

    def leave(self) -> None:
        """Send no more: the client is gone, or has all."""
        self._writer = None
