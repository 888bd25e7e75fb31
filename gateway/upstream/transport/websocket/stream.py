"""The events of one response on a shared socket, as `lanes.ports.Stream` (D25)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gateway.upstream.transport.faults import FaultHolder, backend_fault
from lanes.errors import UpstreamFault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway.upstream.transport.websocket.limits import WebSocketLimits
    from gateway.upstream.transport.websocket.native_steering import NativeSteering
    from lanes.ports import Event


class WebSocketStream(FaultHolder):
    """The events of one response, as they arrive.

    The socket is never paused for one of its lanes: the stream keeps what a slow client does not
    take yet, and the response fails when that is too much. `leave` is called once if the stream is
    closed before the backend has ended the response.
    """

    def __init__(self, limits: WebSocketLimits, leave: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._limits = limits
        self._leave = leave
        self._head: asyncio.Future[None] = self._loop.create_future()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._sink: Callable[[list[Event]], None] | None = None
        self._paused = False
        self._kept: list[Event] = []
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None
        self._read_at = 0.0
        #: The events of the current read; `flush` passes them on.
        self.batch: list[Event] = []
        #: Whether the backend has ended the response, well or not.
        self.ended = False
        self.steering: NativeSteering[WebSocketStream] | None = None
        self.headers: Mapping[str, str] = {}

    @property
    def begun(self) -> bool:
        """Whether an event of the response has arrived."""
        return bool(self.batch) or self._head.done()

    @property
    def waited(self) -> float:
        """For how many seconds the sent create has waited for its first event."""
        return self._loop.time() - self._read_at

    def start(self) -> None:
        """Start the timers, because the create is sent."""
        self._read_at = self._loop.time()
        self._timer = self._loop.call_at(self._read_at + self._limits.first_byte, self._watch)

    async def head(self) -> None:
        """Wait for the first event. Raises UpstreamFault."""
        await self._head
        if self._fault is not None:
            self._raise_fault()

    async def first(self, _: Callable[[Event], bool] = bool) -> list[Event]:
        """Return the first events, which `relay` passes on later; none if the response has none."""
        await self.head()
        return list(self._kept)

    async def relay(self, sink: Callable[[list[Event]], None]) -> None:
        """Call `sink` with the response's events of each network read, from within that read.

        Returns when the response has ended, or after `release` or `close`. Call once.

        Raises:
            UpstreamFault: The response breaks off, or is silent for too long.
            Exception: Whatever `sink` raises (D18).
        """
        self._sink = sink
        try:
            self._pass_kept()
            await self._over
            if self._fault is not None:
                self._raise_fault()
        finally:
            self.close()

    def redirect(self, sink: Callable[[list[Event]], None]) -> None:
        """Let `relay` call another sink from now on; to be called by its sink."""
        self._sink = sink

    def pause(self) -> None:
        """Keep the events that arrive until `resume`. Idempotent."""
        self._paused = True

    def resume(self) -> None:
        """Pass on the kept events, and each read from now on. Idempotent."""
        self._paused = False
        self._pass_kept()

    def close(self) -> None:
        """Give the response up: `relay` returns. Idempotent."""
        ended, self.ended = self.ended, True
        leave = self._leave
        self._finish()
        if not ended:
            leave()

    release = close  # the socket is shared, so there is no connection to close

    def afterwards(self, callback: Callable[[], None]) -> None:
        """Call `callback` at once: a lane has nothing that ends later."""
        callback()

    # -- what the lane calls --

    def flush(self, now: float) -> None:
        """Pass on the events of a read, at its end; `now` is the loop's time."""
        events, self.batch = self.batch, []
        if self._over.done():
            return
        self._read_at = now
        if not self._head.done():
            self._head.set_result(None)
        if self._kept or self._paused or self._sink is None:
            self._keep(events)
        else:
            self._pass(events)
        self._finish_if_passed()

    def end(self, fault: UpstreamFault | None = None) -> None:
        """End the response, because its last event is in `batch`, or because of a fault."""
        self.ended = True
        self._fault = self._fault or fault
        if not self.batch:  # otherwise `flush` follows
            self._finish_if_passed()

    def fail(self, error: Exception) -> None:
        """Give the response up, and make `relay` raise `error`."""
        if not self._over.done():
            self._fault = self._fault or error
            self.close()

    # -- private --

    def _keep(self, events: list[Event]) -> None:
        self._kept += events
        self._size += sum(len(data) for _, data in events)
        if self._size > self._limits.max_event:
            text = (
                f"More than {self._limits.max_event} bytes of this response waited for the client"
            )
            self.fail(
                UpstreamFault(
                    f"{text}, which reads too slowly.",
                    code="slow_consumer",
                    status=503,
                    type="server_error",
                )
            )

    def _pass(self, events: list[Event]) -> None:
        assert self._sink is not None, "it flows only with a sink"
        try:
            self._sink(events)
        except Exception as error:  # noqa: BLE001  `relay` raises it, not the event loop (D18)
            self.fail(error)

    def _pass_kept(self) -> None:
        if self._sink is None or self._paused or self._over.done():
            return
        events, self._kept, self._size = self._kept, [], 0
        if events:
            self._pass(events)
        self._finish_if_passed()

    def _finish_if_passed(self) -> None:
        """Finish an ended response once all of it was passed on."""
        if self.ended and not self._kept:
            self._finish()
        elif self.ended and self._timer is not None:
            self._timer.cancel()  # only the client is late

    def _finish(self) -> None:
        self._kept.clear()
        if self._timer is not None:
            self._timer.cancel()
        for waiter in (self._head, self._over):
            if not waiter.done():
                waiter.set_result(None)
        self._sink = None
        self._leave = _do_nothing  # its lane refers to this stream

    def _watch(self) -> None:
        """Fail if the backend was silent for too long, else set the timer of all events again."""
        limit = self._limits.idle if self._head.done() else self._limits.first_byte
        due = self._read_at + limit
        if due > self._loop.time():
            self._timer = self._loop.call_at(due, self._watch)
        else:
            self.fail(backend_fault(f"The backend sent nothing for {limit:g} seconds.", status=504))


def _do_nothing() -> None:
    """Stand in where nobody has to know any more that the stream was closed."""
