"""So many requests at a time at one upstream; further ones wait in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import anyio

from gateway.upstream.wrapped_steering import WrappedSteering

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gateway.upstream.backend import PeekableStream, TrackedStream
    from lanes.ports import Event, Stream
    from lanes.stream.profile import Profile


class ConcurrencyLimit:
    """Opens streams, `limit` of them at a time."""

    def __init__(self, limit: int) -> None:
        self._free = anyio.Semaphore(limit, fast_acquire=True)

    async def open(self, opening: Callable[[], Awaitable[TrackedStream]]) -> PeekableStream:
        """Wait for a turn, then open. The turn is over with the stream, or if there is none."""
        await self._free.acquire()
        try:
            stream = await opening()
        except BaseException:
            self._free.release()
            raise
        return _Counted(stream, self)

    def counted(self, stream: Stream) -> Stream:
        """A stream that nobody had to ask for: it has a turn if there is one."""
        try:
            self._free.acquire_nowait()
        except anyio.WouldBlock:
            return stream
        return _Counted(cast("TrackedStream", stream), self)  # nobody looks into it

    def over(self) -> None:
        """A turn is over."""
        self._free.release()


class _Counted:
    """A stream that gives its turn back, once, however it ends.

    A request is at the backend until its body has ended, which it may do later than the response.
    """

    def __init__(self, stream: TrackedStream, turns: ConcurrencyLimit) -> None:
        self._stream = stream
        self._over: Callable[[], None] | None = turns.over
        self.pause, self.resume = stream.pause, stream.resume
        steering = stream.steering
        self.steering = None if steering is None else WrappedSteering(steering, turns.counted)

    @property
    def profile(self) -> Profile:
        """That of the stream within."""
        return self._stream.profile

    async def first(self) -> list[Event]:
        """Wait for the first events (see EventStream)."""
        try:
            return await self._stream.first()
        except BaseException:
            self._stream.afterwards(self._end)
            raise

    async def relay(self, sink: Callable[[list[Event]], None]) -> None:
        """Relay it (see EventStream)."""
        try:
            await self._stream.relay(sink)
        finally:
            self._stream.afterwards(self._end)

    def release(self) -> None:
        """Want nothing more."""
        self._stream.release()
        self._stream.afterwards(self._end)

    def close(self) -> None:
        """Close the connection now."""
        self._stream.close()
        self._stream.afterwards(self._end)

    def _end(self) -> None:
        over, self._over = self._over, None
        if over is not None:
            over()
