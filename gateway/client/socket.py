"""One client's WebSocket: uvicorn's, with the reading, writing, pinging and closing lanes need.

tests/wire/test_uvicorn_names.py lists the names of uvicorn's that it depends on (D3).
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.streams import StreamReader

from gateway.client.closing import ClientClosing
from gateway.client.large_frames import LARGE
from gateway.client.peers import EXTENSION

if TYPE_CHECKING:
    from collections.abc import Generator

    from gateway.client.paced_writer import WaterMarks

_UTF8 = codecs.getincrementaldecoder("utf-8")
#: Bytes of a text frame to check before it is parsed; in a larger one the parser does (D4).
CHECKED_AT_ONCE = 1 << 20
#: Bytes to parse at a time: parsed, tiny frames take two hundred times their size.
SLICE = 16 * 1024


class _MovingReader(StreamReader):
    """A reader that moves a large frame out of its buffer, where the base copies it (D33)."""

    def read_exact(self, n: int) -> Generator[None, None, bytearray]:
        """Read so many bytes (see `StreamReader.read_exact`)."""
        return self._moved(n) if n > LARGE else super().read_exact(n)

    def _moved(self, n: int) -> Generator[None, None, bytearray]:
        while len(self.buffer) < n:
            if self.eof:
                raise EOFError("the stream ends within a frame")
            yield
        moved, self.buffer = self.buffer, self.buffer[n:]
        del moved[n:]
        return moved


class ClientSocket(ClientClosing):
    """One WebSocket of a client (protocol.md 1).

    Unlike its base it goes on reading while a message waits, delivers text and binary frames alike
    as bytes, writes finished frames straight to the transport (D3), keeps a peer that is
    merely busy, and never waits forever for a peer that is gone.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._fragments = bytearray()
        #: Checks the fragments of a text message as they come.
        self._utf8: codecs.IncrementalDecoder | None = None
        self._owed_pong = b""
        self._received_at = 0.0
        self._drained_at_ping = 0
        self._parsing = self._held = False
        self.conn.reader.__class__ = _MovingReader

    # Writing

    def bound(self, marks: WaterMarks) -> None:
        """Bound the unsent data; a peer that takes nothing of it in time gets 1013 (D10)."""
        self.writer.bound(marks, self._stalled)

    def write_frames(self, frames: bytes) -> None:
        """Write complete frames, unless the connection is closing."""
        if self.close_sent or self.disconnected:
            return
        self.writer.written += len(frames)
        self.transport.write(frames)

    @property
    def unsent(self) -> int:
        """Bytes that the kernel has not taken yet."""
        return self.transport.get_write_buffer_size()

    def pause_writing(self) -> None:
        """Report that the transport is over the high-water mark, and watch for a stall."""
        super().pause_writing()
        self.writer.full()

    def resume_writing(self) -> None:
        """Report that the transport is below the low-water mark."""
        super().resume_writing()
        if self._owed_pong and not self.close_sent:
            self.transport.write(self._owed_pong)
        self._owed_pong = b""
        self.writer.room()

    def _stalled(self) -> None:
        self.end(1013, "slow_consumer")

    # Ending

    def connection_lost(self, exc: Exception | None) -> None:
        """Release what belongs to a connection that is gone."""
        self.writer.close()
        super().connection_lost(exc)
        self._break_cycles()

    def _break_cycles(self) -> None:
        """Let the parser go, a generator whose frame refers to its owner (D13)."""
        self.conn.parser.close()
        self.conn.parser_exc = None

    # Reading

    def data_received(self, data: bytes) -> None:
        """Parse bytes from the peer, one slice per turn of the event loop."""
        if self._refused or not self.handshake_complete:
            super().data_received(data)
            return
        self._received_at = self.loop.time()
        # Past the handshake, whose part is over.
        WebSocketsSansIOProtocol.data_received(self, data[:SLICE])
        if len(data) > SLICE and not self.transport.is_closing():
            # The receiver has its turn first; nothing more is read until then.
            self.transport.pause_reading()
            self._parsing = True
            self.loop.call_soon(self._read_on, data[SLICE:])

    def _read_on(self, data: bytes) -> None:
        self._parsing = False
        if not self.transport.is_closing():
            if not self._held:
                self.transport.resume_reading()
            self.data_received(data)

    def hold(self) -> None:
        """Read nothing more from the peer until `go_on`, but parse what was read. Idempotent."""
        self._held = True
        if not self.transport.is_closing():
            self.transport.pause_reading()

    def go_on(self) -> None:
        """Read on from the peer. Idempotent."""
        if self._held and not self._parsing and not self.transport.is_closing():
            self.transport.resume_reading()
        self._held = False

    def handle_ping(self) -> None:
        """Answer a ping; a peer that reads nothing gets only the last pong (RFC 6455, 5.5.3)."""
        pongs = self.conn.data_to_send()
        if self.close_sent:
            return
        if self.writable.is_set() or self.conn.close_sent is not None:
            self.transport.write(b"".join(pongs))
        elif pongs:
            self._owed_pong = pongs[-1]

    def handle_text(self, event: Any) -> None:
        """Take a text frame, unless it shows already that the message is no UTF-8."""
        if not event.fin:
            self._utf8 = _UTF8()
        if self._is_text(event):
            super().handle_text(event)

    def _is_text(self, event: Any) -> bool:
        """Return whether a text message is UTF-8 so far; if not, close with 1007 (D4)."""
        data = event.data
        try:
            if len(data) > CHECKED_AT_ONCE:
                self._utf8 = None
            elif self._utf8 is not None:
                self._utf8.decode(data, event.fin)
            elif not data.isascii():
                data.decode()
        except UnicodeDecodeError:
            self.fail_text()
            return False
        return True

    def fail_text(self) -> None:
        """Close a connection on which a text message is no UTF-8, and discard what follows."""
        self.frames, self._utf8 = [], None
        self._fragments.clear()
        self.end(1007, "a text message is not UTF-8")

    def handle_cont(self, event: Any) -> None:
        """Collect fragments in one buffer: there may be any number, even of empty ones."""
        if self.close_sent or (self._utf8 is not None and not self._is_text(event)):
            return
        self._fragments += event.data
        if event.fin:
            self.frames.append(bytes(self._fragments))
            self._fragments.clear()
            self._utf8 = None
            self.send_receive_event_to_app()

    def send_receive_event_to_app(self) -> None:
        """Queue a message and go on reading: the receiver does nothing but receive."""
        data = self.frames[0] if len(self.frames) == 1 else b"".join(self.frames)
        self.frames = []
        if not self.close_sent:
            message: Any = {"type": "websocket.receive", "bytes": data}
            message["is_text"] = self.curr_msg_data_type == "text"
            self.queue.put_nowait(message)

    def notify(self, kind: str) -> None:
        """Queue a message of our own for the receiver."""
        message: Any = {"type": kind}
        self.queue.put_nowait(message)

    async def run_asgi(self) -> None:
        """Run the application, with this socket in its scope."""
        extensions: dict[str, Any] = {**(self.scope["extensions"] or {}), EXTENSION: self}
        self.scope["extensions"] = extensions
        try:
            await super().run_asgi()
        finally:
            del extensions[EXTENSION]  # the scope belongs to this socket

    # Keepalive

    def send_keepalive_ping(self) -> None:
        """Ping, and note how much the peer has acknowledged by then."""
        self._drained_at_ping = self.writer.drained
        super().send_keepalive_ping()

    def keepalive_timeout(self) -> None:
        """Close a peer without a pong, unless bytes flow in either direction.

        A peer that reads nothing cannot see the ping, so `stall_timeout` decides about it.
        """
        flows = self._received_at > self.ping_sent_at or self.writer.drained > self._drained_at_ping
        if flows or self.writer.watched:
            self.pong_timer = None
            self.pending_ping_payload = None
            self.schedule_ping()
            return
        unsent = self.unsent
        super().keepalive_timeout()
        if unsent:
            # A close would wait for a peer that takes nothing.
            self.transport.abort()
