"""`lanes.ports.Stream` over one HTTP answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.upstream.transport.http.reply import Reply
    from gateway.upstream.transport.http.sse import SseSplitter
    from lanes.ports import Event


class EventStream:
    """The events of one answer, on their way. Its head was a good one."""

    def __init__(self, reply: Reply, splitter: SseSplitter) -> None:
        self._reply = reply
        self._splitter = splitter
        self._split = splitter.feed
        self._sink: Callable[[list[Event]], None] = _nowhere
        self._wanted = True
        self._kept: list[Event] = []
        self.headers = reply.headers
        #: Over HTTP there is no way to tell the backend of a steer.
        self.steering = None

    async def first(self) -> list[Event]:
        """Wait for the first events and leave them to `relay`; none if the body ends without any.

        Raises UpstreamFault as `relay` does, and cancelling it closes the connection. Call once.
        """
        come = asyncio.get_running_loop().create_future()

        def keep(events: list[Event]) -> None:
            self._kept += events
            if not come.done():
                come.set_result(None)

        self._sink = keep
        try:
            self._reply.start(self._receive)
            await self._reply.until(come)
        except BaseException:
            self._reply.close()
            raise
        self._kept = self._kept or self._splitter.finish()
        return self._kept

    async def relay(self, sink: Callable[[list[Event]], None]) -> None:
        """Call `sink` with all events of each network read, from within that read.

        Returns when the body has ended as it should, or after `release` or `close`. Raises
        UpstreamFault when it breaks off or is silent too long, and whatever `sink` raises.
        Cancelling it closes the connection. Call once.
        """
        self._sink = sink
        reply = self._reply
        try:
            if self._kept:
                sink(self._kept)
            if self._wanted:
                reply.start(self._receive)
            await reply.end()
            if self._wanted and (last := self._splitter.finish()):
                sink(last)
        finally:
            reply.close()  # it is over, or we are cancelled

    def release(self) -> None:
        """Want nothing more: `relay` returns; the connection is kept if the body ends soon."""
        self._wanted = False
        self._reply.release()

    def close(self) -> None:
        """Close the connection now, so that the backend stops generating; `relay` returns."""
        self._wanted = False
        self._reply.close()

    def afterwards(self, then: Callable[[], None]) -> None:
        """Call `then` when nothing of the request is at the backend any more; at once if so."""
        self._reply.afterwards(then)

    def pause(self) -> None:
        """Read no more until `resume`; the backend feels it. Idempotent."""
        self._reply.pause()

    def resume(self) -> None:
        """Read on. Idempotent."""
        self._reply.resume()

    def _receive(self, data: bytes) -> None:
        try:
            events = self._split(data)
            if events:
                self._sink(events)
        except Exception as error:  # noqa: BLE001  it is `relay`'s to raise, not the event loop's
            self._reply.fail(error)


def _nowhere(_: list[Event]) -> None:
    """Take nothing: `relay` was not called yet."""
