"""One WebSocket to a backend: its frames, pings and timers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from websockets.exceptions import InvalidState
from websockets.frames import Frame, Opcode

from gateway.upstream.transport.dialing import has_unread
from gateway.upstream.transport.faults import TransientFault, backend_fault, copy_fault
from gateway.upstream.transport.paced_sender import PIECE, PacedProtocol
from gateway.upstream.transport.websocket.frame_splitter import FrameSplitter, FrameTooLarge
from gateway.upstream.transport.websocket.lane_switch import (
    LaneSwitch,
    event_too_large,
    socket_closed,
)
from gateway.upstream.transport.websocket.masking import masked
from lanes.errors import UpstreamFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.upstream.transport.websocket.handshake import Handshake
    from gateway.upstream.transport.websocket.lane import UpstreamLane
    from gateway.upstream.transport.websocket.limits import WebSocketCapacity, WebSocketLimits

_MESSAGE = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)


class UpstreamSocket(PacedProtocol):
    """One socket, which the lanes of several clients share.

    `data_received` is the token path: one call of the splitter, one call of a sink for each lane.

    Args:
        handshake: The upgrade to send.
        limits: The limits of the socket.
        capacity: How many responses a socket of this backend carries.
        on_end: Called when it can carry nothing more.
        on_lost: Called when the connection is closed.
        native: Whether the backend itself can steer the streams.
    """

    def __init__(
        self,
        handshake: Handshake,
        limits: WebSocketLimits,
        capacity: WebSocketCapacity,
        on_end: Callable[[UpstreamSocket], None],
        on_lost: Callable[[UpstreamSocket], None],
        *,
        native: bool,
    ) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._time = self._loop.time
        self._handshake = handshake
        self._protocol = handshake.protocol
        self._limits = limits
        self._on_end, self._on_lost = on_end, on_lost
        self._transport: asyncio.Transport | None = None
        self._switch = LaneSwitch(self, limits, capacity, native=native)
        self._splitter = FrameSplitter(limits.max_event, self._other_frame, self._switch.too_large)
        self._pieces: list[bytes] = []
        self._opening: asyncio.Future[None] = self._loop.create_future()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._fault: UpstreamFault | None = None
        self._created_at = self._read_at = self._pinged_at = self._time()
        #: When its last response ended.
        self.idle_since = self._created_at

    @property
    def busy(self) -> int:
        """How many responses it carries."""
        return 0 if self.ended else self._switch.busy

    @property
    def drags(self) -> bool:
        """Whether it carries a response that nobody wants and that only its own end can cancel."""
        return not self.ended and self._switch.drags

    @property
    def ended(self) -> bool:
        """Whether it can carry nothing more."""
        return self._fault is not None

    @property
    def connected(self) -> bool:
        """Whether its connection is still to be closed."""
        return self._transport is not None

    def has_room(self) -> bool:
        """Return whether it takes one more response.

        One over its age limit does not, nor an idle one whose next bytes may be its end.
        """
        if not self.ended and self._time() - self._created_at >= self._limits.max_age:
            self._switch.retire()
        if self.ended or self._switch.free_names <= 0:
            return False
        return self.busy > 0 or self._transport is None or not has_unread(self._transport)

    def take(self) -> UpstreamLane:
        """Return a lane for one response; requires `has_room`."""
        self._cancel("idle")
        return self._switch.take()

    async def opened(self) -> None:
        """Wait until the socket is open. Raises UpstreamFault."""
        await asyncio.shield(self._opening)
        if self._fault is not None:
            raise copy_fault(self._fault)

    def end(self, fault: UpstreamFault) -> None:
        """Send a close frame; running responses end with the fault. Idempotent."""
        if self.ended:
            return
        self._give_up(fault)
        if self._transport is None or not self._opened:
            self.abort()
            return
        with suppress(InvalidState):
            self._protocol.send_close(1000)
        self._write()
        self._after("close", self._limits.close, self.abort)

    def drop(self, fault: UpstreamFault) -> None:
        """Close now; running responses end with the fault. Idempotent."""
        self._give_up(fault)
        self.abort()

    def abort(self) -> None:
        """Close the connection, if there is one, without a close frame."""
        self._sender.close()
        if self._transport is not None:
            self._transport.abort()
        else:
            self._let_go()

    # -- SwitchConnection: what the lanes call --

    def send(self, text: bytes, rest: bytes = b"") -> None:
        """Send a text frame (see `LaneConnection.send`)."""
        if self.ended:
            return
        if len(rest) > PIECE:
            self._sender.write_large(masked(text, rest))
        else:
            self._protocol.send_text(text + rest)
            self._write()

    def rest(self) -> None:
        """Close after a while, because no response runs any more (see `SwitchConnection.rest`)."""
        self.idle_since = self._time()
        self._after("idle", self._limits.keep_idle, lambda: self.end(socket_closed()))

    # -- asyncio.Protocol --

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport and send the upgrade."""
        self._transport = cast("asyncio.Transport", transport)
        self._sender.transport = self._transport
        if self.ended:
            self.abort()
            return
        self._write()
        self._after("open", self._limits.connect, self._unanswered)

    def data_received(self, data: bytes) -> None:
        """Split one read into messages and pass them on."""
        self._read_at = self._time()
        try:
            if not self._opened:
                rest = self._handshake.feed(data)
                if rest is None:
                    return
                self._open()
                data = rest
            messages = self._splitter.feed(data)
        except FrameTooLarge:
            self._protocol.fail(1009)
            self._write()
            self.drop(event_too_large(self._limits.max_event))
        except UpstreamFault as fault:
            self.drop(fault)
        else:
            self._switch.route(messages, self._read_at)
            if self._protocol.close_rcvd is not None or self._protocol.parser_exc is not None:
                self._closed()

    def eof_received(self) -> None:
        """Let the transport close, because the peer sends nothing more."""

    def connection_lost(self, exc: Exception | None) -> None:
        """End all responses, because one of the peers closed the connection."""
        reason = f" ({exc})" if exc else ""
        if self._opened:
            fault = backend_fault(f"The backend's socket broke{reason}.", kind=TransientFault)
        else:
            fault = self._handshake.broken(f"The backend closed the connection{reason}.")
        self._give_up(fault)
        self._cancel("close")
        self._sender.close()
        self._transport = None
        self._let_go()
        self._on_lost(self)

    def _let_go(self) -> None:
        """Let go of what refers back to this socket or to itself, now that no byte comes (D13)."""
        self._handshake.let_go()
        with suppress(AttributeError):  # an ended socket may be aborted again
            del self._splitter, self._switch

    # -- opening and closing --

    @property
    def _opened(self) -> bool:
        return self._opening.done()

    def _open(self) -> None:
        self._cancel("open")
        self._switch.takes_cancel = self._handshake.takes_cancel
        self._opening.set_result(None)
        self._pinged_at = self._read_at
        self._after("ping", self._limits.ping, self._ping)

    def _unanswered(self) -> None:
        text = f"The backend did not answer the upgrade within {self._limits.connect:g} seconds."
        self.drop(self._handshake.broken(text, status=504))

    def _other_frame(self, frame: bytes) -> list[bytes]:
        """Pass any other frame than a whole text to the protocol; return the messages it ends."""
        self._protocol.receive_data(frame)
        messages = []
        for frame_event in self._protocol.events_received():
            if isinstance(frame_event, Frame) and frame_event.opcode in _MESSAGE:
                self._pieces.append(bytes(frame_event.data))
                if frame_event.fin:
                    messages.append(b"".join(self._pieces))
                    self._pieces.clear()
        self._write()
        return messages

    def _closed(self) -> None:
        """End all responses, because the peer closed the socket or broke the protocol."""
        if self._transport is not None:
            self._transport.close()
        if self.ended:
            return
        close = self._protocol.close_rcvd
        if close is None:
            text = f"The backend broke the WebSocket protocol ({self._protocol.parser_exc})."
            self._give_up(backend_fault(text, kind=TransientFault))
            return
        text = f"The backend closed the socket ({int(close.code)}"
        fault = backend_fault(f"{text} {close.reason}".rstrip() + ").", kind=TransientFault)
        fault.logged = f"{text})."
        self._give_up(fault, too_big=close.code == 1009)

    def _give_up(self, fault: UpstreamFault, *, too_big: bool = False) -> None:
        if self._fault is not None:
            return
        self._fault = fault.bare()
        for name in ("idle", "open", "ping"):
            self._cancel(name)
        self._on_end(self)
        if not self._opening.done():
            self._opening.set_result(None)
        self._switch.lost(fault, too_big=too_big)

    def _ping(self) -> None:
        """Send a ping; any byte since the last one counts as its pong."""
        if self._read_at < self._pinged_at:
            text = (
                f"The backend's socket did not answer a ping within {self._limits.ping:g} seconds."
            )
            self.drop(backend_fault(text, kind=TransientFault))
            return
        self._pinged_at = self._time()
        with suppress(InvalidState):
            self._protocol.send_ping(b"multilane")
        self._write()
        self._after("ping", self._limits.ping, self._ping)

    def _write(self) -> None:
        data = [piece for piece in self._protocol.data_to_send() if piece]
        if data:
            self._sender.write(data)

    def _after(self, name: str, seconds: float, callback: Callable[[], None]) -> None:
        self._cancel(name)
        self._timers[name] = self._loop.call_later(seconds, callback)

    def _cancel(self, name: str) -> None:
        if (timer := self._timers.pop(name, None)) is not None:
            timer.cancel()
