"""uvicorn's sans-IO WebSocket, with the reading, writing, pinging and closing that lanes need."""

from __future__ import annotations

import array
import sys
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

if sys.platform == "linux":
    import fcntl
    import termios

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

#: Where the endpoint finds its socket in the ASGI scope.
EXTENSION = "multilane.socket"
#: Bytes that are parsed in one go: once parsed, tiny frames weigh two hundred times as much.
SLICE = 16 * 1024
#: Seconds for the peer to answer a close frame before the connection is torn down.
CLOSE_TIMEOUT = 5.0


def unacknowledged(transport: asyncio.Transport) -> int:
    """Bytes in the kernel that the peer has not taken; 0 where the system does not say.

    The kernel holds megabytes, and takes more only when a third of them is gone: by what it takes
    alone, a dead peer looks alive and a slow one dead.
    """
    if sys.platform != "linux":
        return 0
    sock = transport.get_extra_info("socket")
    if sock is None or sock.fileno() < 0:
        return 0
    size = array.array("i", [0])
    fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, size)
    return size[0]


class ClientSocket(WebSocketsSansIOProtocol):
    """One WebSocket (protocol.md 1).

    Differs from its base in that it goes on reading while a message waits, hands text and binary
    frames over alike as bytes, lets finished frames be written straight to the transport, does not
    drop a peer that is merely busy, and never waits for ever on a peer that is gone.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.close_timeout = CLOSE_TIMEOUT
        self._fragments = bytearray()
        self._owed_pong = b""
        self._received_at = 0.0
        self._written = 0
        self._drained_at_ping = 0
        self._on_full: Callable[[], None] | None = None
        self._on_room: Callable[[], None] | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._stall_timeout = 0.0

    # Writing

    def bound(
        self,
        high: int,
        stall_timeout: float,
        on_full: Callable[[], None],
        on_room: Callable[[], None],
    ) -> None:
        """Bound unsent data to `high` bytes.

        `on_full` is called over it, `on_room` once half of it is left. A peer that takes nothing
        for `stall_timeout` seconds meanwhile is closed with 1013.
        """
        self._on_full, self._on_room, self._stall_timeout = on_full, on_room, stall_timeout
        self.transport.set_write_buffer_limits(high=high, low=high // 2)

    def write_frames(self, frames: bytes) -> None:
        """Write whole frames, unless the connection is closing."""
        if self.close_sent or self.disconnected:
            return
        self._written += len(frames)
        self.transport.write(frames)

    @property
    def unsent(self) -> int:
        """Bytes that the peer's network has not taken yet."""
        return self.transport.get_write_buffer_size()

    def pause_writing(self) -> None:
        """The transport is over the high-water mark."""
        super().pause_writing()
        if self._on_full is not None:
            self._on_full()
            self._watch(self._drained())

    def resume_writing(self) -> None:
        """The transport is below the low-water mark."""
        super().resume_writing()
        self._unwatch()
        if self._owed_pong and not self.close_sent:
            self.transport.write(self._owed_pong)
        self._owed_pong = b""
        if self._on_room is not None:
            self._on_room()

    def _drained(self) -> int:
        """How much of what was written has reached the peer, for comparing."""
        return self._written - self.unsent - unacknowledged(self.transport)

    def _watch(self, drained: int) -> None:
        self._unwatch()
        self._stall = self.loop.call_later(self._stall_timeout, self._stalled, drained)

    def _unwatch(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _stalled(self, drained: int) -> None:
        if self._drained() > drained:
            self._watch(self._drained())
        else:
            self.end(1013, "slow_consumer")

    # Closing

    def end(self, code: int, reason: str = "") -> None:
        """Close with a code; what was written before still goes out first. Idempotent."""
        if self.close_sent or self.disconnected:
            return
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.conn.send_close(code, reason)
        self._write_control()
        self._linger()

    @property
    def code(self) -> int:
        """The close code, whoever said it first; 1006 if nobody did."""
        said = self.conn.close_sent or self.conn.close_rcvd
        return 1006 if said is None else int(said.code)

    def _linger(self) -> None:
        """Go on reading so that our close frame is not lost to a reset; then make an end."""
        self.close_sent = True
        self.stop_keepalive()
        self._unwatch()
        if self.close_timer is None:
            self.close_timer = self.loop.call_later(self.close_timeout, self.transport.abort)

    def _write_control(self) -> None:
        self.transport.write(b"".join(self.conn.data_to_send()))

    def handle_close(self, event: Any) -> None:
        """The peer closes, or answers our closing."""
        super().handle_close(event)
        # Nothing may follow our close frame. And the peer may have stopped reading before: what is
        # unsent must not keep the connection.
        self._linger()

    def handle_parser_exception(self) -> None:
        """A frame broke the protocol or the size limit: tell why, and read the rest unseen."""
        if self.close_sent:
            return
        close = self.conn.close_sent
        code, reason = (close.code, close.reason) if close is not None else (1002, "")
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self._write_control()
        if self.transport.can_write_eof():
            # Its answer would go unseen, so it must not wait for us to hang up after it.
            self.transport.write_eof()
        self._linger()

    def shutdown(self) -> None:
        """The server ends: close like always, so that our close frame arrives."""
        if self.handshake_complete:
            self.end(1012, "service restart")
        else:
            super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone, however it went."""
        self._unwatch()
        self._on_full = self._on_room = None
        super().connection_lost(exc)

    # Reading

    def data_received(self, data: bytes) -> None:
        """Bytes from the peer: it is alive. What is much is parsed bit by bit."""
        self._received_at = self.loop.time()
        super().data_received(data[:SLICE])
        if len(data) > SLICE and not self.transport.is_closing():
            # Whoever receives has its turn first; until then nothing more is read.
            self.transport.pause_reading()
            self.loop.call_soon(self._read_on, data[SLICE:])

    def _read_on(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()
            self.data_received(data)

    def handle_ping(self) -> None:
        """Answer; while the peer reads nothing only the last ping counts (RFC 6455, 5.5.3)."""
        pongs = self.conn.data_to_send()
        if self.close_sent:
            return
        if self.writable.is_set() or self.conn.close_sent is not None:
            self.transport.write(b"".join(pongs))
        elif pongs:
            self._owed_pong = pongs[-1]

    def handle_cont(self, event: Any) -> None:
        """Collect fragments in one buffer: they may be empty, and without number."""
        self._fragments += event.data
        if event.fin:
            self.frames.append(bytes(self._fragments))
            self._fragments.clear()
            self.send_receive_event_to_app()

    def send_receive_event_to_app(self) -> None:
        """Queue a message and read on: whoever receives does nothing but receive."""
        data = self.frames[0] if len(self.frames) == 1 else b"".join(self.frames)
        self.frames = []
        if not self.close_sent:
            self.queue.put_nowait({"type": "websocket.receive", "bytes": data})

    def notify(self, kind: str) -> None:
        """Queue a message of our own, for whoever receives."""
        message: Any = {"type": kind}
        self.queue.put_nowait(message)

    async def run_asgi(self) -> None:
        """Run the application, with this socket in its scope."""
        extensions: dict[str, Any] = {**(self.scope["extensions"] or {}), EXTENSION: self}
        self.scope["extensions"] = extensions
        await super().run_asgi()

    async def send(self, message: Any) -> None:
        """Take what the application says before there are frames: accept, or refuse over HTTP."""
        await super().send(message)
        # A refusal completes the handshake, too; the base would log it as an error.
        self.handshake_complete = self.handshake_complete or self.close_sent

    # Keepalive

    def send_keepalive_ping(self) -> None:
        """Ping, and note how much the peer had taken by then."""
        self._drained_at_ping = self._drained()
        super().send_keepalive_ping()

    def keepalive_timeout(self) -> None:
        """No pong came in time. A peer is alive all the same while bytes flow either way.

        One that reads nothing cannot see the ping: `stall_timeout` is what it has.
        """
        flows = self._received_at > self.ping_sent_at or self._drained() > self._drained_at_ping
        if flows or self._stall is not None:
            self.pong_timer = None
            self.pending_ping_payload = None
            self.schedule_ping()
            return
        unsent = self.unsent
        super().keepalive_timeout()
        if unsent:
            # Closing would wait for a peer that takes nothing.
            self.transport.abort()
