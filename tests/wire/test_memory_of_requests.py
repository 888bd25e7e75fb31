"""What a create over HTTP held dies with its answer, by reference counts alone (D13)."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from tests.support.alive import twice
from tests.support.events import created, delta, in_progress, opened, reply
from tests.support.exchange import hung_up
from tests.support.http_client import posted
from tests.support.wire_stand import standing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from tests.support.wire_stand import WireStand

    Scene = Callable[[WireStand, dict[str, Any], Mapping[str, str]], Awaitable[None]]


async def answered(stand: WireStand, body: dict[str, Any], headers: Mapping[str, str]) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(all_read, stand, body, headers)
        exchange = await stand.fake.next()
        await exchange.send(*reply("ok"))
        await exchange.end()


async def all_read(stand: WireStand, body: dict[str, Any], headers: Mapping[str, str]) -> None:
    async with posted(stand.url, body, headers, judged=False) as answer:
        assert answer.status == 200
        await answer.body()


async def broken_off(stand: WireStand, body: dict[str, Any], headers: Mapping[str, str]) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(all_read, stand, body, headers)
        exchange = await stand.fake.next()
        await exchange.send(created(), in_progress(), *opened(), delta("one"))
        exchange.reset()


async def refused_upstream(
    stand: WireStand, body: dict[str, Any], headers: Mapping[str, str]
) -> None:
    async with anyio.create_task_group() as tasks:

        async def read() -> None:
            async with posted(stand.url, body, headers) as answer:
                assert answer.status == 429
                await answer.body()

        tasks.start_soon(read)
        exchange = await stand.fake.next()
        await exchange.reply(429, {"error": {"message": "no", "code": "x"}})


async def refused_here(stand: WireStand, body: dict[str, Any], headers: Mapping[str, str]) -> None:
    for wrong in ({"metadata": 1}, {"previous_response_id": "resp_of_nobody"}, {"input": "\ud800"}):
        async with posted(stand.url, {**body, **wrong}, headers) as answer:
            assert answer.status == 400
            await answer.body()


async def left_before_the_head(
    stand: WireStand, body: dict[str, Any], headers: Mapping[str, str]
) -> None:
    async with anyio.create_task_group() as tasks:
        gone = anyio.CancelScope()

        async def wait() -> None:
            with gone:
                await all_read(stand, body, headers)

        tasks.start_soon(wait)
        exchange = await stand.fake.next()
        await exchange.send(*([] if body.get("stream") else [created(), *opened(), delta("one")]))
        gone.cancel()
        if headers:  # such a create runs to its end (D31)
            await exchange.send(*reply("ok"))
            await exchange.end()
        else:
            await hung_up(exchange)


async def left_in_mid_answer(
    stand: WireStand, body: dict[str, Any], headers: Mapping[str, str]
) -> None:
    if not body.get("stream"):
        await left_before_the_head(stand, body, headers)
        return
    async with anyio.create_task_group() as tasks:

        async def leave_after_a_word() -> None:
            async with posted(stand.url, body, headers) as answer:
                await answer.until("response.output_text.delta")

        tasks.start_soon(leave_after_a_word)
        exchange = await stand.fake.next()
        await exchange.send(created(), in_progress(), *opened(), delta("one"))
    if headers:
        exchange.reset()
    else:
        await hung_up(exchange)


ANSWERED: list[Scene] = [answered, broken_off, refused_upstream, refused_here]
LEFT: list[Scene] = [left_before_the_head, left_in_mid_answer]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("scene", "named"),
    [*((scene, False) for scene in ANSWERED + LEFT), *((scene, True) for scene in ANSWERED + LEFT)],
)
async def test_nothing_outlives_a_create_over_http(
    scene: Scene, *, stream: bool, named: bool
) -> None:
    numbers = count()

    async def play() -> None:
        headers = {"idempotency-key": f"one {next(numbers)}"} if named else {}
        await scene(stand, {"stream": stream}, headers)
        stand.fake.exchanges.clear()

    async with standing(retries=0) as stand:
        await twice(play)
