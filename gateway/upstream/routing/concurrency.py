"""How many requests one upstream has at a time; further ones wait in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

import anyio

from gateway.upstream.wrapped_steering import WrappedSteering

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gateway.upstream.stream_start import StreamStart
    from gateway.upstream.tracked_stream import BegunStream, TrackedStream
    from gateway.upstream.transport.http.reply import HttpReply
    from lanes.ports import Event, Stream
    from lanes.stream.profile import Profile


_Answer = TypeVar("_Answer")


class ConcurrencyLimit:
    """Opens streams, `limit` of them at a time. Each stream has a turn until it is over."""

    def __init__(self, limit: int) -> None:
        self._free = anyio.Semaphore(limit, fast_acquire=True)

    async def open(self, opening: Callable[[], Awaitable[TrackedStream]]) -> BegunStream:
        """Wait for a turn, then call `opening`. The turn ends with the stream, or if it fails."""
        return _StreamWithTurn(await self._in_turn(opening), self)

    async def pass_on(self, sending: Callable[[], Awaitable[HttpReply]]) -> HttpReply:
        """Wait for a turn, then call `sending`. The turn ends with the answer, or if it fails."""
        reply = await self._in_turn(sending)
        reply.afterwards(self.give_back)
        return reply

    async def _in_turn(self, asking: Callable[[], Awaitable[_Answer]]) -> _Answer:
        await self._free.acquire()
        try:
            return await asking()
        except BaseException:
            self._free.release()
            raise

    def counted(self, stream: Stream) -> Stream:
        """Return a stream that no request opened with a turn, if one is free."""
        try:
            self._free.acquire_nowait()
        except anyio.WouldBlock:
            return stream
        return _StreamWithTurn(cast("TrackedStream", stream), self)  # nobody asks for its `start`

    def give_back(self) -> None:
        """End a turn."""
        self._free.release()


class _StreamWithTurn:
    """A stream that gives its turn back, once, however it ends.

    A request is at the backend until its body has ended, perhaps later than the response.
    """

    def __init__(self, stream: TrackedStream, turns: ConcurrencyLimit) -> None:
        self._stream = stream
        self._give_back: Callable[[], None] | None = turns.give_back
        self.pause, self.resume = stream.pause, stream.resume
        steering = stream.steering
        self.steering = None if steering is None else WrappedSteering(steering, turns.counted)

    @property
    def profile(self) -> Profile:
        """The profile of the inner stream."""
        return self._stream.profile

    @property
    def start(self) -> StreamStart:
        """What the first events of the inner stream say."""
        return self._stream.start

    async def relay(self, sink: Callable[[list[Event]], None]) -> None:
        """Relay it (see `HttpStream.relay`)."""
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
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()
