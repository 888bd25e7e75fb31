"""The events of one HTTP answer, as `lanes.ports.Stream`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.upstream.transport.http.answer_body import AnswerBody
    from gateway.upstream.transport.http.reply import HttpReply
    from lanes.ports import Event


class HttpStream:
    """The events of one answer whose head is good, as they arrive."""

    def __init__(self, reply: HttpReply, body: AnswerBody) -> None:
        self._reply = reply
        self._body = body
        self._split: Callable[[bytes], list[Event]] = body.feed
        self._sink: Callable[[list[Event]], None] = _discard
        self._wanted = True
        self._kept: list[Event] = []
        self._held = False  # whether `first` has them, and `relay` was not called yet
        self._paused = False
        self.headers = reply.headers
        #: HTTP has no way to pass a steer to the backend.
        self.steering = None

    async def first(self, meant: Callable[[Event], bool] = bool) -> list[Event]:
        """Return the first events, which `relay` passes on later; none if the body has none.

        Raises UpstreamFault as `relay` does. Cancelling closes the connection. Call once.

        Args:
            meant: Whether an event is one to wait for.
        """
        arrival = asyncio.get_running_loop().create_future()

        def keep(events: list[Event]) -> None:
            self._kept += events
            if not arrival.done() and any(map(meant, events)):
                arrival.set_result(None)
                self._held = True  # else a quick backend would fill memory until `relay`
                self._reply.pause()

        self._sink = keep
        try:
            self._reply.start(self._receive_unknown)
            await self._reply.until(arrival)
            if not arrival.done():
                self._kept += self._body.finish()
        except BaseException:
            self.close()
            raise
        return self._kept

    async def relay(self, sink: Callable[[list[Event]], None]) -> None:
        """Call `sink` with all events of each network read, from within that read.

        Returns when the body has ended as it should, or after `release` or `close`. Cancelling
        closes the connection. Call once.

        Raises:
            UpstreamFault: The body breaks off, or is silent for too long.
            Exception: Whatever `sink` raises (D18).
        """
        self._sink = sink
        reply = self._reply
        try:
            if self._kept:
                sink(self._kept)
            if self._wanted:
                reply.start(self._receive if self._body.plain else self._receive_unknown)
            self._held = False
            if not self._paused:
                reply.resume()
            await reply.end()
            if self._wanted and (last := self._body.finish()):
                self._sink(last)
        finally:
            self._sink = _discard
            reply.close()  # it is over, or this call was cancelled

    def redirect(self, sink: Callable[[list[Event]], None]) -> None:
        """Let `relay` call another sink from the next read on; to be called by its sink."""
        self._sink = sink

    def release(self) -> None:
        """End `relay`; keep the connection if the body ends within a second."""
        self._wanted = False
        self._reply.release()

    def close(self) -> None:
        """Close the connection now, so that the backend stops generating; end `relay`."""
        self._wanted = False
        self._sink = _discard  # which may refer to this stream
        self._reply.close()

    def afterwards(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the backend is done with the request, at once if it is."""
        self._reply.afterwards(callback)

    def pause(self) -> None:
        """Stop reading until `resume`, so that the backend must stop sending. Idempotent."""
        self._paused = True
        self._reply.pause()

    def resume(self) -> None:
        """Read again. Idempotent."""
        self._paused = False
        if not self._held:
            self._reply.resume()

    def _receive_unknown(self, data: bytes) -> None:
        """Take a read while it is not sure what the body is."""
        self._receive(data)
        if self._body.plain:
            self._split = self._body.splitter.feed
            if self._wanted and self._sink is not _discard:
                self._reply.start(self._receive)

    def _receive(self, data: bytes) -> None:
        try:
            events = self._split(data)
            if events:
                self._sink(events)
        except Exception as error:  # noqa: BLE001  `relay` raises it, not the event loop (D18)
            self._reply.fail(error)


def _discard(_: list[Event]) -> None:
    """Stand in until `relay` is called."""
