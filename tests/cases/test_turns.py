"""`concurrency`: never more requests at an upstream than that; the others wait in order (D23)."""

from __future__ import annotations

import random
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from tests.support.client import connect
from tests.support.events import closed, completed, created, delta, in_progress, message, opened
from tests.support.exchange import hung_up
from tests.support.gateway_stand import answer, said
from tests.support.several_upstreams import Several, several
from tests.support.steered import talking

if TYPE_CHECKING:
    from tests.support.exchange import Exchange


class Busy:
    """A backend that takes its time, and counts how many requests it has at once."""

    def __init__(self) -> None:
        self.most = self.now = self.served = 0
        self.random = random.Random(7)

    async def __call__(self, exchange: Exchange) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await exchange.send(created(), in_progress(), *opened(), delta("a"))
            for _ in range(self.random.randrange(4)):
                with anyio.move_on_after(0.005):
                    await exchange.closed.wait()
                await exchange.send(delta("b"))
            self.served += 1
        finally:
            self.now -= 1
        await exchange.send(*closed("ab"), completed(output=[message("ab")]))
        await exchange.end()


def limited(most: int, **extra: Any) -> dict[str, dict[str, Any]]:
    return {"a": {"models": ["m"], "concurrency": most, **extra}}


async def waiting(of: Several, *lanes: str) -> None:
    """These creates are sent, and every one of them waits for its turn."""
    before = of.asked()
    for lane in lanes:
        await of.client.create(lane, input=lane)
    # Read, started, and come as far as they can: the gateway answers in between.
    await of.client.create("probe", generate=False)
    await of.client.ended("probe")
    assert of.asked() == before


async def next_is(of: Several, lane: str) -> Exchange:
    """The next request is that lane's."""
    exchange = await of.fakes["a"].next()
    assert said(exchange) == [lane]
    return exchange


async def test_twenty_lanes_of_two_sockets_with_clients_that_leave() -> None:
    busy = Busy()
    async with several(limited(3), {"a": busy}, max_active=20) as of, AsyncExitStack() as stack:
        other = await stack.enter_async_context(connect(of.url))
        leaving = [await stack.enter_async_context(connect(of.url)) for _ in range(4)]
        for lane in range(20):
            for client in (of.client, other, *leaving):
                await client.create(f"l{lane}")
        for client in leaving:
            client.abort()
        for client in (of.client, other):
            for lane in range(20):
                assert (await client.ended(f"l{lane}"))["status"] == "completed"
        assert busy.most <= 3
        assert busy.served >= 40


async def test_they_come_in_order() -> None:
    async with several(limited(2)) as of:
        running = [await of["a"].asked(lane, input=lane) for lane in ("x", "y")]
        await waiting(of, "1", "2", "3")
        for lane in "123":
            await answer(running.pop(0))
            running.append(await next_is(of, lane))
            assert of.fakes["a"].exchanges[-1] is running[-1]
        for exchange in running:
            await answer(exchange)
        for lane in "xy123":
            await of.client.ended(lane)
        assert of.fakes["a"].connections == 2


@pytest.mark.parametrize("how", ["ends", "cut", "reset", "steered"])
async def test_a_turn_is_free_at_once(how: str) -> None:
    async with several(limited(1)) as of:
        running = await talking(of["a"], "x")
        await waiting(of, "1")
        if how == "steered":
            await running.steer("shorter")
            await of.client.until("response.incomplete", lane="x")
        elif how == "ends":
            await running.exchange.end()
        elif how == "cut":
            running.exchange.cut()
        else:
            running.exchange.reset()
        await answer(await next_is(of, "1"))
        assert (await of.client.ended("1"))["status"] == "completed"
        if how == "steered":
            await (await running.follows()).finish()


@pytest.mark.parametrize("ends", [True, False])
async def test_after_its_response_a_body_has_a_second_to_end(ends: bool) -> None:
    async with several(limited(1)) as of:
        running = await talking(of["a"], "x")
        await waiting(of, "1")
        await running.exchange.send(*closed("abc"), completed(output=[message("abc")]))
        await running.ended()
        await of.client.create("probe", generate=False)
        await of.client.ended("probe")
        assert of.asked() == {"a": 1}, "to the backend it is still a request"
        if ends:
            await running.exchange.end()
        following = await next_is(of, "1")
        assert running.exchange.closed.is_set() is not ends
        await answer(following)
        assert (await of.client.ended("1"))["status"] == "completed"


async def test_a_refusal_frees_its_turn() -> None:
    async with several(limited(1)) as of:
        exchange = await of["a"].asked("x")
        await waiting(of, "1", "2")
        await exchange.reply(400, b"no")
        await of.client.error("x")
        await (await next_is(of, "1")).reply(500, b"no")
        await of.client.error("1")
        await answer(await next_is(of, "2"))


async def test_whoever_leaves_while_it_waits_is_passed_over() -> None:
    async with several(limited(1)) as of, connect(of.url) as other:
        exchange = await of["a"].asked("x")
        async with connect(of.url) as leaving:
            for lane in ("1", "2"):
                await leaving.create(lane, input=lane)
            await leaving.create("p", generate=False)
            await leaving.ended("p")
            await other.create("3", input="3")
            await other.create("p", generate=False)
            await other.ended("p")
        await answer(exchange)
        await answer(await next_is(of, "3"))
        assert (await other.ended("3"))["status"] == "completed"


async def test_a_client_that_leaves_frees_its_turn_before_and_after_the_head() -> None:
    async with several(limited(2)) as of:
        async with connect(of.url) as leaving:
            await leaving.create("h", input="h")
            headless = await of.fakes["a"].next()
            await leaving.create("t", input="t")
            talks = await of.fakes["a"].next()
            await talks.send(created(), in_progress())
            await leaving.until("response.in_progress", lane="t")
            await waiting(of, "1", "2")
            leaving.abort()
        await hung_up(headless, talks)
        for lane in "12":
            await answer(await next_is(of, lane))
            await of.client.ended(lane)


async def test_waiting_for_a_turn_ends_with_the_gateway() -> None:
    async with several(limited(1), drain_timeout=0) as of:
        await of["a"].asked("x")
        await waiting(of, "1")
    assert of.asked() == {"a": 1}


async def test_other_upstreams_do_not_wait() -> None:
    tables = {**limited(1), "b": {"models": ["other"]}}
    async with several(tables) as of:
        await of["a"].asked("x")
        await waiting(of, "1")
        await of["b"].turn("y", model="other")
        assert of.asked() == {"a": 1, "b": 1}
