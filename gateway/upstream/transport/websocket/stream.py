"""`lanes.ports.Stream` over one lane of a socket that others share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gateway.upstream.transport.faults import unreachable
from lanes.errors import UpstreamFault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway.upstream.transport.websocket.limits import SocketLimits
    from gateway.upstream.transport.websocket.native_steering import NativeSteering
    from lanes.ports import Event


class SocketStream:
    """The events of one response, on their way.

    The socket is never paused for one of its lanes: what a slow client does not take yet is kept,
    and the response fails when that is too much. `leave` is called once if it is closed before the
    upstream has ended it.
    """

    def __init__(self, terms: SocketLimits, leave: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._terms = terms
        self._leave = leave
        self._head: asyncio.Future[None] = self._loop.create_future()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._fault: Exception | None = None
        self._sink: Callable[[list[Event]], None] | None = None
        self._paused = False
        self._kept: list[Event] = []
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None
        self._heard = 0.0
        #: What the read under way has brought; `flush` passes it on.
        self.batch: list[Event] = []
        #: Whether the upstream has ended it, well or not.
        self.ended = False
        self.steering: NativeSteering | None = None
        self.headers: Mapping[str, str] = {}

    @property
    def begun(self) -> bool:
        """Whether an event of it has come."""
        return bool(self.batch) or self._head.done()

    def start(self) -> None:
        """Its create is sent: from now on it must not be silent."""
        self._heard = self._loop.time()
        self._timer = self._loop.call_at(self._heard + self._terms.first_byte, self._watch)

    async def head(self) -> None:
        """Wait for the first event. Raises UpstreamFault."""
        await self._head
        if self._fault is not None:
            raise self._fault

    async def first(self) -> list[Event]:
        """The first events, which stay for `relay`; none if it has ended without any."""
        await self.head()
        return list(self._kept)

    async def relay(self, sink: Callable[[list[Event]], None]) -> None:
        """Call `sink` with all of its events of each network read, from within that read.

        Returns when the response has ended, or after `release` or `close`. Raises UpstreamFault
        when it breaks off or is silent too long, and whatever `sink` raises. Call once.
        """
        self._sink = sink
        try:
            self._flow()
            await self._over
            if self._fault is not None:
                raise self._fault
        finally:
            self.close()

    def pause(self) -> None:
        """Keep what comes until `resume`. Idempotent."""
        self._paused = True

    def resume(self) -> None:
        """Pass on what was kept, and go on. Idempotent."""
        self._paused = False
        self._flow()

    def close(self) -> None:
        """Want nothing more: `relay` returns. Idempotent."""
        ended, self.ended = self.ended, True
        self._finish()
        if not ended:
            self._leave()

    release = close  # there is no connection to keep or not

    def afterwards(self, then: Callable[[], None]) -> None:
        """Call `then`: a lane has nothing that could end later."""
        then()

    # -- what the lane calls --

    def flush(self, now: float) -> None:
        """A read is over: pass on what it brought."""
        events, self.batch = self.batch, []
        if self._over.done():
            return
        self._heard = now
        if not self._head.done():
            self._head.set_result(None)
        if self._kept or self._paused or self._sink is None:
            self._keep(events)
        else:
            self._pass(events)
        self._settle()

    def end(self, fault: UpstreamFault | None = None) -> None:
        """The upstream has ended it: with its last event, or with a fault."""
        self.ended = True
        self._fault = self._fault or fault
        if not self.batch:  # else `flush` follows
            self._settle()

    def fail(self, error: Exception) -> None:
        """Give it up, and let `relay` raise `error`."""
        if not self._over.done():
            self._fault = self._fault or error
            self.close()

    # -- inside --

    def _keep(self, events: list[Event]) -> None:
        self._kept += events
        self._size += sum(len(data) for _, data in events)
        if self._size > self._terms.max_event:
            text = f"More than {self._terms.max_event} bytes of this response waited for the client"
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
        except Exception as error:  # noqa: BLE001  it is `relay`'s to raise, not the event loop's
            self.fail(error)

    def _flow(self) -> None:
        if self._sink is None or self._paused or self._over.done():
            return
        events, self._kept, self._size = self._kept, [], 0
        if events:
            self._pass(events)
        self._settle()

    def _settle(self) -> None:
        """It is over once all of it was passed on; a fault before anything came, at once."""
        if self.ended and not self._kept:
            self._finish()
        elif self.ended and self._timer is not None:
            self._timer.cancel()  # what is missing is the client's taking it

    def _finish(self) -> None:
        self._kept.clear()
        if self._timer is not None:
            self._timer.cancel()
        for waited_for in (self._head, self._over):
            if not waited_for.done():
                waited_for.set_result(None)
        self._sink = None

    def _watch(self) -> None:
        """Look whether it was silent for too long; one timer for all events."""
        limit = self._terms.idle if self._head.done() else self._terms.first_byte
        due = self._heard + limit
        if due > self._loop.time():
            self._timer = self._loop.call_at(due, self._watch)
        else:
            self.fail(unreachable(f"The backend sent nothing for {limit:g} seconds.", status=504))
