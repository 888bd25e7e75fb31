"""What a connection held dies with it, by reference counts alone (D13)."""

from __future__ import annotations

import gc
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio
import pytest

from tests.support.calling import called_out, calling
from tests.support.client import connect
from tests.support.events import opened
from tests.support.gateway_stand import Stand
from tests.support.steered import talking
from tests.support.wire_stand import WireStand, standing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    Scene = Callable[[Stand], Awaitable[None]]

#: The packages whose objects make up a connection.
OURS = ("gateway.", "lanes.", "steering.", "uvicorn.", "starlette.", "websockets.server")
#: What is kept on purpose: stored responses, records and verdicts of steers.
STORES = ("lanes.stores", "steering.stores", "steering.clerk")
#: A create with this user is one of a connection that has ended.
MARK = "a create of a connection that has ended"


def alive() -> Counter[str]:
    """How many objects of each of our classes there are, and how many bodies of marked creates."""
    found: Counter[str] = Counter()
    for one in gc.get_objects():
        kind = type(one)
        module = kind.__module__
        if isinstance(module, str) and module.startswith(OURS) and not module.startswith(STORES):
            found[f"{module}.{kind.__qualname__}"] += 1
        elif kind is dict and one.get("user") == MARK:
            found["the body of a create"] += 1
    return found


@contextmanager
def uncollected() -> Iterator[None]:
    """Nothing but reference counts frees anything within the block."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def finished(on: Stand) -> None:
    _, parent = await on.turn("a", user=MARK)
    await on.turn("a", user=MARK, previous_response_id=parent["id"])
    await on.turn("b", user=MARK, previous_response_id=parent["id"])


async def streaming(on: Stand) -> None:
    await talking(on, "a", "one", "two", user=MARK)


async def waiting_for_the_head(on: Stand) -> None:
    await on.asked("a", user=MARK)


async def waiting_in_a_lane(on: Stand) -> None:
    await streaming(on)
    await on.client.create("a", user=MARK)
    await on.client.send("x")
    await on.client.error()


async def followed(on: Stand) -> None:
    parent = await talking(on, "a", "one", user=MARK)
    await parent.steer()
    await parent.ended("steered")
    running = await parent.follows()
    await running.send(*opened())
    await running.says("two")


async def before_the_successor(on: Stand) -> None:
    parent = await talking(on, "a", "one", user=MARK)
    await parent.steer()
    await parent.ended("steered")
    await on.fake.next()


async def waiting_for_a_boundary(on: Stand) -> None:
    parent = await calling(on, "a", user=MARK)
    await parent.steer()


async def pending(on: Stand) -> None:
    parent = await calling(on, "a", user=MARK)
    steer = await parent.steer()
    await called_out(parent)
    await parent.pending(steer)


async def refused_here(on: Stand) -> None:
    await on.refused("a", user=MARK, previous_response_id="resp_of_nobody")
    await on.refused("a", user=MARK, background=True)


async def refused_upstream(on: Stand) -> None:
    for status in (400, 429, 500):
        exchange = await on.asked("a", user=MARK)
        await exchange.reply(status, {"error": {"message": "no", "code": "x"}})
        await on.client.error("a")


async def broken_off(on: Stand) -> None:
    running = await talking(on, "a", "one", user=MARK)
    running.exchange.reset()
    assert (await on.client.ended("a"))["status"] == "failed"


async def unreadable(on: Stand) -> None:
    running = await talking(on, "a", "one", user=MARK)
    await running.send(b"data: {\n\n")
    assert (await on.client.ended("a"))["status"] == "failed"


SCENES: list[Scene] = [
    finished,
    streaming,
    waiting_for_the_head,
    waiting_in_a_lane,
    followed,
    before_the_successor,
    waiting_for_a_boundary,
    pending,
    refused_here,
    refused_upstream,
    broken_off,
    unreadable,
]


async def played(stand: WireStand, scene: Scene, *, aborts: bool) -> None:
    """One connection on which the scene happens, until the client leaves."""
    async with connect(stand.url) as client:
        await scene(Stand(stand.fake, client, stand.url, []))
        if aborts:
            client.abort()
    stand.fake.exchanges.clear()


async def gone(before: Counter[str]) -> None:
    """All that came since has died; whatever is left is named."""
    left = before
    with anyio.move_on_after(5):
        while left := alive() - before:  # noqa: ASYNC110 - nothing tells of a death
            await anyio.sleep(0.01)
    assert not left


@pytest.mark.parametrize("aborts", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("scene", SCENES)
async def test_nothing_outlives_its_connection(scene: Scene, *, aborts: bool) -> None:
    async with standing(retries=0) as stand:
        await played(stand, scene, aborts=aborts)  # what the process keeps is there from now on
        with uncollected():
            before = alive()
            await played(stand, scene, aborts=aborts)
            await gone(before)
