"""One WebSocket to a backend: lanes out, their events in."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from websockets.exceptions import InvalidState
from websockets.frames import Frame, Opcode

from gateway.upstream.transport.faults import TransientFault, another, unreachable
from gateway.upstream.transport.websocket.frame_splitter import FrameSplitter, TooLarge
from gateway.upstream.transport.websocket.lane_switch import LaneSwitch, ended, too_large
from lanes.errors import UpstreamFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.upstream.transport.websocket.handshake import Handshake
    from gateway.upstream.transport.websocket.lane import UpstreamLane
    from gateway.upstream.transport.websocket.limits import SocketCapacity, SocketLimits

_MESSAGE = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)


class UpstreamSocket(asyncio.Protocol):
    """Calls `on_end` when it can carry nothing more, and `on_lost` when its socket is closed.

    `data_received` is the token path: one call of the splitter, one call of a sink for each lane.
    """

    def __init__(
        self,
        handshake: Handshake,
        terms: SocketLimits,
        room: SocketCapacity,
        on_end: Callable[[UpstreamSocket], None],
        on_lost: Callable[[UpstreamSocket], None],
        *,
        native: bool,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._time = self._loop.time
        self._handshake = handshake
        self._protocol = handshake.protocol
        self._terms = terms
        self._on_end, self._on_lost = on_end, on_lost
        self._transport: asyncio.Transport | None = None
        self._switch = LaneSwitch(self, terms, room, native=native)
        self._splitter = FrameSplitter(terms.max_event, self._special, self._switch.too_large)
        self._pieces: list[bytes] = []
        self._opening: asyncio.Future[None] = self._loop.create_future()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._fault: UpstreamFault | None = None
        self._born = self._heard = self._pinged = self._time()
        #: When its last response ended.
        self.idle_since = self._born

    @property
    def busy(self) -> int:
        """How many of its names are in use."""
        return self._switch.busy

    @property
    def ended(self) -> bool:
        """Whether it can carry nothing more."""
        return self._fault is not None

    @property
    def connected(self) -> bool:
        """Whether there is a connection that has to be closed yet."""
        return self._transport is not None

    def takes(self) -> bool:
        """Whether it takes one more response. One that has grown old does not."""
        if self._time() - self._born >= self._terms.max_age:
            self._switch.retire()
        return not self.ended and self._switch.free_names > 0

    def take(self) -> UpstreamLane:
        """A lane for one response; only if it `takes` one."""
        self._stop("idle")
        return self._switch.take()

    async def opened(self) -> None:
        """Wait until it is open. Raises UpstreamFault."""
        await asyncio.shield(self._opening)
        if self._fault is not None:
            raise another(self._fault)

    def end(self, fault: UpstreamFault) -> None:
        """Close in an orderly way; what still runs ends with the fault. Idempotent."""
        if self.ended:
            return
        self._give_up(fault)
        if self._transport is None or not self._opened:
            self.abort()
            return
        with suppress(InvalidState):
            self._protocol.send_close(1000)
        self._write()
        self._after("close", self._terms.close, self.abort)

    def drop(self, fault: UpstreamFault) -> None:
        """Close now; what runs ends with the fault. Idempotent."""
        self._give_up(fault)
        self.abort()

    def abort(self) -> None:
        """Close the connection without a word."""
        if self._transport is not None:
            self._transport.abort()

    # -- what its lanes call --

    def send(self, text: bytes) -> None:
        """Send a text frame."""
        if not self.ended:
            self._protocol.send_text(text)
            self._write()

    def rest(self) -> None:
        """Nothing runs any more: do not wait for ever."""
        self.idle_since = self._time()
        self._after("idle", self._terms.keep_idle, lambda: self.end(ended()))

    # -- asyncio.Protocol --

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport, and ask for the upgrade."""
        self._transport = cast("asyncio.Transport", transport)
        if self.ended:
            self.abort()
            return
        self._write()
        self._after("open", self._terms.connect, self._unanswered)

    def data_received(self, data: bytes) -> None:
        """Take one read."""
        self._heard = self._time()
        try:
            if not self._opened:
                rest = self._handshake.feed(data)
                if rest is None:
                    return
                self._open()
                data = rest
            messages = self._splitter.feed(data)
        except TooLarge:
            self._protocol.fail(1009)
            self._write()
            self.drop(too_large(self._terms.max_event))
        except UpstreamFault as fault:
            self.drop(fault)
        else:
            self._switch.route(messages, self._heard)
            if self._protocol.close_rcvd is not None or self._protocol.parser_exc is not None:
                self._closed()

    def eof_received(self) -> None:
        """The peer sends nothing more; the transport closes."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed, by whom ever."""
        why = f" ({exc})" if exc else ""
        if self._opened:
            fault = unreachable(f"The backend's socket broke{why}.", kind=TransientFault)
        else:
            fault = self._handshake.broken(f"The backend closed the connection{why}.")
        self._give_up(fault)
        self._stop("close")
        self._transport = None
        self._on_lost(self)

    # -- opening and closing --

    @property
    def _opened(self) -> bool:
        return self._opening.done()

    def _open(self) -> None:
        self._stop("open")
        self._opening.set_result(None)
        self._pinged = self._heard
        self._after("ping", self._terms.ping, self._ping)

    def _unanswered(self) -> None:
        text = f"The backend did not answer the upgrade within {self._terms.connect:g} seconds."
        self.drop(self._handshake.broken(text, status=504))

    def _special(self, frame: bytes) -> list[bytes]:
        """A frame that is not simply an event: what the protocol makes of it."""
        self._protocol.receive_data(frame)
        found = []
        for got in self._protocol.events_received():
            if isinstance(got, Frame) and got.opcode in _MESSAGE:
                self._pieces.append(bytes(got.data))
                if got.fin:
                    found.append(b"".join(self._pieces))
                    self._pieces.clear()
        self._write()
        return found

    def _closed(self) -> None:
        """The peer has closed, or broken the protocol."""
        if self._transport is not None:
            self._transport.close()
        if self.ended:
            return
        close = self._protocol.close_rcvd
        if close is None:
            text = f"The backend broke the WebSocket protocol ({self._protocol.parser_exc})."
            self._give_up(unreachable(text, kind=TransientFault))
            return
        reason = f" {close.reason}" if close.reason else ""
        text = f"The backend closed the socket ({int(close.code)}{reason})."
        self._give_up(unreachable(text, kind=TransientFault), largest=close.code == 1009)

    def _give_up(self, fault: UpstreamFault, *, largest: bool = False) -> None:
        if self._fault is not None:
            return
        self._fault = fault
        for name in ("idle", "open", "ping"):
            self._stop(name)
        self._on_end(self)
        if not self._opening.done():
            self._opening.set_result(None)
        self._switch.lost(fault, largest=largest)

    def _ping(self) -> None:
        """See whether the peer is there: anything it has said since the last ping is a pong."""
        if self._heard < self._pinged:
            text = (
                f"The backend's socket did not answer a ping within {self._terms.ping:g} seconds."
            )
            self.drop(unreachable(text, kind=TransientFault))
            return
        self._pinged = self._time()
        with suppress(InvalidState):
            self._protocol.send_ping(b"multilane")
        self._write()
        self._after("ping", self._terms.ping, self._ping)

    def _write(self) -> None:
        data = [piece for piece in self._protocol.data_to_send() if piece]
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(data)

    def _after(self, name: str, seconds: float, function: Callable[[], None]) -> None:
        self._stop(name)
        self._timers[name] = self._loop.call_later(seconds, function)

    def _stop(self, name: str) -> None:
        if (timer := self._timers.pop(name, None)) is not None:
            timer.cancel()
