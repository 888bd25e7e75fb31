"""Turns at one upstream: given in order, and given back once however a stream ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from gateway.upstream.routing.concurrency import ConcurrencyLimit
from gateway.upstream.stream_start import StreamStart
from lanes.stream.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from gateway.upstream.tracked_stream import BegunStream, TrackedStream
    from lanes.ports import BackendSteering, Event


class Quiet:
    """A stream on which nothing comes until it is told to be over."""

    profile = Profile()
    steering: BackendSteering | None = None
    start = StreamStart()

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.calls: list[str] = []
        self.draining = False
        self.then: Callable[[], None] | None = None

    async def relay(self, sink: Callable[[list[Event]], None]) -> None:
        await self.over.wait()

    def pause(self) -> None:
        self.calls.append("pause")

    def resume(self) -> None:
        self.calls.append("resume")

    def release(self) -> None:
        self.calls.append("release")

    def close(self) -> None:
        self.calls.append("close")

    def afterwards(self, callback: Callable[[], None]) -> None:
        if self.draining:
            self.then = callback
        else:
            callback()


class Line:
    """Openings at a limit of `most`; `opened` is who got a turn, in order."""

    def __init__(self, most: int) -> None:
        self.turns = ConcurrencyLimit(most)
        self.opened: list[str] = []
        self.streams: dict[str, BegunStream] = {}
        self.inner: dict[str, Quiet] = {}

    def comes(self, name: str) -> asyncio.Task[None]:
        return asyncio.create_task(self._open(name))

    async def _open(self, name: str) -> None:
        async def opening() -> TrackedStream:
            self.opened.append(name)
            self.inner[name] = Quiet()
            return self.inner[name]

        self.streams[name] = await self.turns.open(opening)


async def settled() -> None:
    for _ in range(10):
        await checkpoint()


ENDINGS: dict[str, Callable[[Line], Coroutine[Any, Any, None]]] = {}


def ending(function: Callable[[Line], Coroutine[Any, Any, None]]) -> None:
    ENDINGS[function.__name__] = function


@ending
async def close(line: Line) -> None:
    line.streams["a"].close()
    line.streams["a"].close()
    assert line.inner["a"].calls == ["close", "close"]


@ending
async def release(line: Line) -> None:
    line.streams["a"].release()
    line.streams["a"].close()
    assert line.inner["a"].calls == ["release", "close"]


@ending
async def end(line: Line) -> None:
    line.inner["a"].over.set()
    await line.streams["a"].relay(lambda _: None)
    line.streams["a"].close()


@ending
async def cancel(line: Line) -> None:
    relaying = asyncio.ensure_future(line.streams["a"].relay(lambda _: None))
    await checkpoint()
    relaying.cancel()


class Steered(Quiet):
    """One that is followed by another of its kind."""

    def __init__(self) -> None:
        super().__init__()
        self.steering = self
        self.successor = Quiet()

    def steer(self, steer_id: str, messages: Any, refused: Callable[[], None]) -> None:
        self.calls.append(steer_id)

    async def follow(self, steers: Sequence[str]) -> Quiet | None:
        return self.successor if steers else None

    def give_up(self) -> None:
        self.calls.append("give up")


@pytest.mark.parametrize("room", [True, False])
async def test_what_follows_by_itself_has_a_turn_if_there_is_one(room: bool) -> None:
    line, inner = Line(1), Steered()

    async def opening() -> TrackedStream:
        return inner

    stream = await line.turns.open(opening)
    assert stream.steering is not None
    stream.steering.steer("s", [], line.streams.clear)
    stream.steering.give_up()
    assert inner.calls == ["s", "give up"]
    assert await stream.steering.follow([]) is None
    stream.release()
    if not room:
        await line.comes("a")
    successor = await stream.steering.follow(["s"])
    assert successor is not None
    waiting = line.comes("b")
    await settled()
    assert not waiting.done()
    successor.close()
    assert inner.successor.calls == ["close"]
    if not room:
        line.streams["a"].close()
    await waiting
    line.streams["b"].close()


@pytest.mark.parametrize("how", ENDINGS)
async def test_one_turn_is_given_back_once(how: str) -> None:
    line = Line(1)
    tasks = [line.comes(name) for name in "abc"]
    await settled()
    assert line.opened == ["a"]
    assert line.streams["a"].profile is Quiet.profile
    line.streams["a"].pause()
    line.streams["a"].resume()
    assert line.inner["a"].calls == ["pause", "resume"]
    line.inner["a"].calls.clear()
    await ENDINGS[how](line)
    await settled()
    assert line.opened == ["a", "b"]
    line.streams["b"].close()
    await asyncio.gather(*tasks)
    assert line.opened == ["a", "b", "c"]


async def test_a_turn_lasts_until_the_body_has_ended() -> None:
    line = Line(1)
    tasks = [line.comes(name) for name in "ab"]
    await settled()
    inner = line.inner["a"]
    inner.draining = True
    inner.over.set()
    line.streams["a"].release()
    await line.streams["a"].relay(lambda _: None)
    await settled()
    assert line.opened == ["a"]
    assert inner.then is not None
    inner.then()
    await asyncio.gather(*tasks)
    assert line.opened == ["a", "b"]


async def test_whoever_gives_up_while_waiting_takes_no_turn() -> None:
    line = Line(1)
    a, b, c = (line.comes(name) for name in "abc")
    await settled()
    b.cancel()
    line.streams["a"].close()
    await settled()
    assert line.opened == ["a", "c"]
    await asyncio.gather(a, c)


async def test_a_turn_given_to_who_gives_up_just_then_goes_on() -> None:
    line = Line(1)
    a, b, c = (line.comes(name) for name in "abc")
    await settled()
    line.streams["a"].close()
    b.cancel()
    await settled()
    assert line.opened == ["a", "c"]
    await asyncio.gather(a, c)
