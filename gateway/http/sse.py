"""A response as server-sent events: what they look like, and the writer of one stream of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

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
HEARTBEAT = b": keep-alive\n\n"


class SseOutbox(PacedStreams):
    """Implements `lanes.ports.Outbox` over one HTTP answer (protocol.md 7).

    What is first, an event or a refusal, decides the answer's status, so nothing leaves before
    `open`. From then on events leave at the end of the event loop's turn (D12), and a comment after
    each `heartbeat` seconds without any.

    Attributes:
        decided: Set once the first event is there, or the fault instead of any.
        fault: Why there is no response.
    """

    def __init__(self, heartbeat: float) -> None:
        super().__init__()
        self.decided = anyio.Event()
        self._heartbeat = heartbeat
        self._loop = asyncio.get_running_loop()
        self._beat: asyncio.TimerHandle | None = None
        self._wrote_at = 0.0
        self.fault: Fault | None = None
        self._write: Callable[[bytes], None] | None = None
        self._soon = self._loop.call_soon
        self._events: list[bytes] = []
        self._size = 0

    def put(self, stamp: Stamp, body: bytes) -> None:
        """Add the number to an event and queue it, in one step: numbers follow the wire."""
        number = stamp.number
        stamp.number = number + 1
        name = body[9 : body.find(b'"', 9)] if body.startswith(_HEAD) else b"\\"
        if b"\\" in name:
            name = _odd_name(body)
        event = b"event: %b\ndata: %b%b%d}\n\n" % (name, body, stamp.tail, number)
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

    def open(self, write: Callable[[bytes], None]) -> None:
        """Let the queued events leave, and all that follow."""
        self._write = write
        self.flush()
        self._wait_for_silence(self._heartbeat)

    def close(self) -> None:
        """Send what is queued, and nothing more."""
        self.flush()
        self._write = None
        if self._beat is not None:
            self._beat.cancel()

    def flush(self) -> None:
        """Hand all that is queued to the answer now, in one write."""
        if self._events and self._write is not None:
            events = b"".join(self._events)
            self._events.clear()
            self._size = 0
            self._wrote_at = self._loop.time()
            self._write(events)

    def _wait_for_silence(self, seconds: float) -> None:
        self._beat = self._loop.call_later(seconds, self._on_beat)

    def _on_beat(self) -> None:
        """Send a comment if nothing was written for long; one timer serves all events between."""
        if self._write is None:
            return
        left = self._wrote_at + self._heartbeat - self._loop.time()
        if left <= 0:
            left = self._heartbeat
            self._wrote_at = self._loop.time()
            if not self._paused:  # else it is the client that is behind
                self._write(HEARTBEAT)
        self._wait_for_silence(left)


def _odd_name(body: bytes) -> bytes:
    """Return the name of an event whose type comes late or holds what JSON escapes."""
    name: str = decode(body + b"}")["type"]
    # A line cannot hold everything that a type can.
    return "".join(letter for letter in name if letter.isprintable()).encode()
