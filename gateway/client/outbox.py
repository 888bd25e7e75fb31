"""The single writer of a connection: numbers, frames and enqueues each event in one step."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from gateway.telemetry.traffic import Traffic
from lanes.codec import encode
from lanes.events import Stamp, error_event

if TYPE_CHECKING:
    from lanes.errors import Fault
    from lanes.ports import Stream

#: More queued bytes than this do not wait for the turn to end: the transport has to see them to
#: push back.
_MANY_BYTES = 64 * 1024
#: Frames of fewer bytes than this have their heads prepared.
_PREPARED = 2048


class FrameWriter(Protocol):
    """Where finished WebSocket frames go."""

    def write_frames(self, frames: bytes) -> None:
        """Write whole frames; ignored once the connection is closing."""


class PacedStreams:
    """The part of `lanes.ports.Outbox` that lets a client's pace govern its upstreams."""

    def __init__(self) -> None:
        self._streams: set[Stream] = set()
        #: Whether the client is so far behind that its upstreams wait.
        self.paused = False

    def attach(self, stream: Stream) -> None:
        """Let the client's pace govern this stream."""
        self._streams.add(stream)
        if self.paused:
            stream.pause()

    def detach(self, stream: Stream) -> None:
        """Forget a stream that is over."""
        self._streams.discard(stream)

    def pause(self) -> None:
        """Pause every stream: the client is too far behind."""
        self.paused = True
        for stream in tuple(self._streams):
            stream.pause()

    def resume(self) -> None:
        """Resume every stream: the client caught up."""
        self.paused = False
        for stream in tuple(self._streams):
            stream.resume()


class SocketOutbox(PacedStreams):
    """Implements `lanes.ports.Outbox` over one WebSocket (protocol.md 1 and 4).

    The transport's own water marks bound what is unsent. While it is over the high one (`pause` was
    called), every attached upstream stream is paused; below the low one (`resume`) all go on.

    Frames leave at the end of the event loop's turn (D12), so that what all lanes read in one turn
    is one write; or at once when there are many bytes of them.

    Args:
        wire: Where the frames go.
        sent: Where they are counted.
    """

    def __init__(self, wire: FrameWriter, sent: Traffic | None = None) -> None:
        super().__init__()
        self._wire = wire
        self._sent = sent or Traffic()
        self._soon = asyncio.get_running_loop().call_soon
        self._frames: list[bytes] = []
        self._size = 0

    def put(self, stamp: Stamp, body: bytes, *more: bytes) -> None:
        """Add the number to an event and queue its frame, in one step: numbers follow the wire.

        Args:
            stamp: The numbering of its response.
            body: Its JSON without the closing brace.
            more: The rest of that, if it was made in pieces.
        """
        number = stamp.number
        stamp.number = number + 1
        if more:
            pieces = body, *more
            if sum(map(len, pieces)) > _MANY_BYTES:
                self._put_large(*pieces, b"%b%d}" % (stamp.tail, number))
                return
            body = b"".join(pieces)
        payload = b"%b%b%d}" % (body, stamp.tail, number)
        size = len(payload)
        if not self._frames:
            self._soon(self.flush)
        if size < _PREPARED:
            self._frames.append(_HEADERS[size] + payload)
        elif size > _MANY_BYTES:
            self._put_large(payload)
            return
        else:
            self._frames.append(_header(size) + payload)
        self._size += size
        if self._size > _MANY_BYTES:
            self.flush()

    def _put_large(self, *payload: bytes) -> None:
        """Write what is queued, and then a frame that is not worth a copy (D33)."""
        self.flush()
        frame = _header(sum(map(len, payload))), *payload
        self._sent.events += 1
        self._sent.bytes += sum(map(len, frame))
        for piece in frame:
            self._wire.write_frames(piece)

    def put_event(self, stamp: Stamp, event: dict[str, Any]) -> None:
        """Encode an event and queue it (see `Outbox.put_event`)."""
        self.put(stamp, encode(event)[:-1])

    def put_reply(self, event: dict[str, Any]) -> None:
        """Queue an event that belongs to no response: its number is 0, it has no lane."""
        self.put_event(Stamp(None), event)

    def error(self, fault: Fault, stream_id: str | None) -> None:
        """Queue an `error` event, also while its lane is busy."""
        payload = error_event(fault, stream_id)
        if not self._frames:
            self._soon(self.flush)
        self._frames.append(_header(len(payload)) + payload)
        self._size += len(payload)

    def pause(self) -> None:
        """Pause every stream (see `PacedStreams.pause`), and count for how long."""
        if not self.paused:
            self._sent.pressure.begin()
        super().pause()

    def resume(self) -> None:
        """Resume every stream: the client caught up, or is gone."""
        if self.paused:
            self._sent.pressure.end()
        super().resume()

    def flush(self) -> None:
        """Hand all that is queued to the transport now, in one write."""
        if self._frames:
            frames = b"".join(self._frames)
            # A frame is an event: so nothing is counted for each (D50).
            sent = self._sent
            sent.events += len(self._frames)
            sent.bytes += len(frames)
            self._frames.clear()
            self._size = 0
            self._wire.write_frames(frames)


def _header(size: int) -> bytes:
    """Return the head of an unmasked text frame (RFC 6455, 5.2)."""
    if size < 126:
        return b"\x81%c" % size
    if size < 65536:
        return b"\x81\x7e" + size.to_bytes(2, "big")
    return b"\x81\x7f" + size.to_bytes(8, "big")


#: The heads of the frames of nearly all events, by size: a look-up costs half of making one.
_HEADERS = tuple(map(_header, range(_PREPARED)))
