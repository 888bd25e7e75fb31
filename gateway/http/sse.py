"""Server-sent events: what they look like, and how they leave for one client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from gateway.client.outbox import PacedStreams
from lanes.codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.errors import Fault
    from lanes.events import Stamp

#: How the JSON of nearly every event begins.
_HEAD = b'{"type":"'
#: More queued bytes than this do not wait for the turn to end (see `SocketOutbox`).
_MANY_BYTES = 64 * 1024
#: A comment: it keeps proxies and clients from taking silence for the end.
_HEARTBEAT = b": keep-alive\n\n"


def sse_event(stamp: Stamp, body: bytes) -> bytes:
    """Return an event with its number and its lines; `body` is its JSON without the last brace."""
    number = stamp.number
    stamp.number = number + 1
    name = body[9 : body.find(b'"', 9)] if body.startswith(_HEAD) else b"\\"
    if b"\\" in name:
        name = _odd_name(body)
    return b"event: %b\ndata: %b%b%d}\n\n" % (name, body, stamp.tail, number)


def _odd_name(body: bytes) -> bytes:
    """Return the name of an event whose type comes late or holds what JSON escapes."""
    name: str = decode(body + b"}")["type"]
    # A line cannot hold everything that a type can.
    return "".join(letter for letter in name if letter.isprintable()).encode()


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
    """Writes events to one client, and a comment whenever there were none for long.

    Args:
        write: Takes the bytes.
        heartbeat: Seconds of silence until a comment.
    """

    def __init__(self, write: Callable[[bytes], None], heartbeat: float) -> None:
        self._write = write
        self._heartbeat = heartbeat
        self._loop = asyncio.get_running_loop()
        self._wrote_at = self._loop.time()
        self._beat = self._loop.call_later(heartbeat, self._on_beat)
        #: Whether the client is behind, so that it is not silence when nothing comes.
        self.full = False

    def write(self, events: bytes) -> None:
        """Write whole events."""
        self._wrote_at = self._loop.time()
        self._write(events)

    def close(self) -> None:
        """Send no more comments."""
        self._beat.cancel()

    def _on_beat(self) -> None:
        """Send a comment if it is time; one timer serves all events that came in between."""
        now = self._loop.time()
        if now - self._wrote_at >= self._heartbeat:
            self._wrote_at = now
            if not self.full:
                self._write(_HEARTBEAT)
        self._beat = self._loop.call_at(self._wrote_at + self._heartbeat, self._on_beat)


class SseOutbox(PacedStreams):
    """Implements `lanes.ports.Outbox` and `EventSource`: a response for the client that asked.

    What is first, an event or a fault, decides the answer's status, so nothing leaves before
    `open`. From then on events leave at the end of the event loop's turn (D12).
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

    def put(self, stamp: Stamp, body: bytes) -> None:
        """Add the number to an event and queue it, in one step: numbers follow the wire."""
        event = sse_event(stamp, body)
        if not self._events:
            self._soon(self.flush)
            self.decided.set()
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
        if self._events and self._writer is not None:
            events = b"".join(self._events)
            self._events.clear()
            self._size = 0
            self._writer.write(events)

    def leave(self) -> None:
        """Send no more: the client is gone, or has all."""
        self._writer = None
