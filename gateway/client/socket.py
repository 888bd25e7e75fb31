"""One client's WebSocket: uvicorn's, with the reading, writing, pinging and closing lanes need.

tests/wire/test_uvicorn_names.py lists the names of uvicorn's that it depends on (D3).
"""

from __future__ import annotations

import codecs
from io import BytesIO
from time import perf_counter
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Opcode

from gateway.client.frame_reader import STAND_IN, PayloadReader
from gateway.client.keepalive import ClientKeepalive
from gateway.client.large_frames import LARGE
from gateway.client.peers import EXTENSION
from gateway.client.turns import SHARE, TURNS

if TYPE_CHECKING:
    from collections.abc import Generator

    from gateway.client.paced_writer import WaterMarks

_UTF8 = codecs.getincrementaldecoder("utf-8")
#: Bytes of a text frame to check before it is parsed; in a larger one the parser does (D4).
CHECKED_AT_ONCE = 1 << 20
#: Bytes to parse at a time: parsed, tiny frames take two hundred times their size.
SLICE = 4 * 1024


class FrameReader(PayloadReader):
    """The library's reader, which has no state but its buffer when this takes its place."""

    def read_exact(self, n: int) -> Generator[None, None, bytearray]:
        """Read so many bytes (see `StreamReader.read_exact`)."""
        if n > SLICE:
            return self.read_large(n) if n > LARGE else self.read_medium(n)
        return self._read_four() if n == len(b"mask") else super().read_exact(n)

    def _read_four(self) -> Generator[None, None, bytearray]:
        self.mask = yield from super().read_exact(4)
        return self.mask


class ClientSocket(ClientKeepalive):
    """One WebSocket of a client (protocol.md 1).

    Unlike its base it goes on reading while a message waits, delivers text and binary frames alike
    as bytes, writes finished frames straight to the transport (D3), keeps a peer that is
    merely busy, and never waits forever for a peer that is gone.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        #: Checks the fragments of a text message as they come.
        self._utf8: codecs.IncrementalDecoder | None = None
        self._owed_pong = b""
        self._held = False
        #: Bytes that are still to be parsed, once the receiver `caught_up`; until then nothing more
        #: is read.
        self.rest = b""
        self._due = False  # whether they have a turn
        self.conn.reader.__class__ = FrameReader
        self._reader: FrameReader = self.conn.reader  # type: ignore[assignment]

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
        start = perf_counter()
        if self.rest or TURNS.waiting or start < TURNS.busy_until - SHARE:
            self._defer(self.rest + data)
        else:
            self._parse(data, start)

    def _parse(self, data: bytes, start: float) -> None:
        """Parse what there is time for in this turn of the event loop."""
        end = at = 0
        while end < len(data) and not self.transport.is_closing():
            at, end = end, end + min(self._reader.missing or SLICE, LARGE)
            # Past the handshake, whose part is over.
            WebSocketsSansIOProtocol.data_received(self, data[at:end])
            if perf_counter() - start > SHARE:
                break
        TURNS.busy_until = max(TURNS.busy_until, start) + 2 * (perf_counter() - start)
        if end < len(data) and not self.transport.is_closing():
            self._defer(data[end:])

    def _defer(self, data: bytes) -> None:
        """Parse the rest in turn, once the receiver has all that was parsed; read nothing more."""
        self.rest = data
        self.transport.pause_reading()
        if self.close_sent:
            self._take_turn()
        else:
            self.caught_up()

    def _take_turn(self) -> None:
        if not self._due:
            self._due = True
            TURNS.call(self._read_on)

    def _read_on(self) -> None:
        rest, self.rest, self._due = self.rest, b"", False
        if rest and not self.transport.is_closing():
            self._parse(rest, perf_counter())
            if not (self.rest or self._held or self.transport.is_closing()):
                self.transport.resume_reading()

    def caught_up(self) -> None:
        """Parse on what was read, if the receiver has all that was parsed."""
        if self.queue.empty():
            self._take_turn()

    def linger(self) -> None:
        """Wait for the peer to close (see `ClientHandshake.linger`); nobody receives any more."""
        super().linger()
        if self.rest:
            self._take_turn()

    def hold(self) -> None:
        """Read nothing more from the peer until `go_on`, but parse what was read. Idempotent."""
        self._held = True
        if not self.transport.is_closing():
            self.transport.pause_reading()

    def go_on(self) -> None:
        """Read on from the peer. Idempotent."""
        if self._held and not self.rest and not self.transport.is_closing():
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
        self.curr_msg_data_type = "text"
        if not event.fin:
            self._utf8 = _UTF8()
        self._collect(event)

    def handle_bytes(self, event: Any) -> None:
        """Take a binary frame."""
        self.curr_msg_data_type = "bytes"
        self._collect(event)

    def handle_cont(self, event: Any) -> None:
        """Collect fragments in one buffer: there may be any number, even of empty ones."""
        if not self.close_sent:
            self._collect(event)

    def _collect(self, event: Any) -> None:
        """Add a frame to its message, and queue that once it is whole."""
        reader, data = self._reader, event.data
        if (large := reader.large) and reader.message is not None:
            reader.large = 0
            if self.conn.current_size is not None:
                self.conn.current_size += large - STAND_IN
            # The end of a large frame is the end of a slice: nothing of it was written behind.
            data = memoryview(reader.message.getvalue())[-large:]
        is_text = self.curr_msg_data_type == "text"
        checks = self._utf8 is not None or (event.fin and event.opcode is not Opcode.CONT)
        if is_text and checks and not self._is_text(data, ends=event.fin):
            return
        if reader.message is not None or not event.fin:
            reader.message = reader.message or BytesIO()
            if not large:
                reader.message.write(data)
            if not event.fin:
                return
            data, reader.message = reader.message.getvalue(), None
        self._utf8 = None
        if not self.close_sent:
            message: Any = {"type": "websocket.receive", "bytes": data, "is_text": is_text}
            self.queue.put_nowait(message)

    def _is_text(self, data: bytes | memoryview, *, ends: bool) -> bool:
        """Return whether a text message is UTF-8 so far; if not, close with 1007 (D4)."""
        try:
            if len(data) > CHECKED_AT_ONCE:
                self._utf8 = None
            elif self._utf8 is not None:
                self._utf8.decode(data, ends)
            elif not (data := bytes(data)).isascii():
                data.decode()
        except UnicodeDecodeError:
            self.fail_text()
            return False
        return True

    def fail_text(self) -> None:
        """Close a connection on which a text message is no UTF-8, and discard what follows."""
        self._reader.message = self._utf8 = None
        self.fail(1007, "a text message is not UTF-8")

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
