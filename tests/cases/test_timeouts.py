"""protocol.md 4 and field-cases.md B50, B73: silence is bounded, life is not."""

from __future__ import annotations

import anyio

from tests.support.events import completed, created, delta, message, opened
from tests.support.exchange import hung_up
from tests.support.gateway_stand import answer, stand


async def test_a_backend_that_never_answers_is_a_504() -> None:
    async with stand(first_byte_timeout=0.8) as on:
        exchange = await on.asked("a")
        error = await on.client.error("a")
        assert (error["status"], error["error"]["code"]) == (504, "timeout")
        await hung_up(exchange)
        await on.usable("a")


async def test_a_head_is_not_yet_an_answer() -> None:
    async with stand(first_byte_timeout=0.8) as on:
        exchange = await on.asked("a")
        await exchange.head()
        assert (await on.client.error("a"))["status"] == 504
        await hung_up(exchange)


async def test_a_comment_is_not_yet_an_event() -> None:
    async with stand(idle_timeout=0.8) as on:
        exchange = await on.asked("a")
        await exchange.send(b": one moment\n\n")
        assert (await on.client.error("a"))["status"] == 504
        await hung_up(exchange)
        await on.usable("a")


async def test_silence_in_mid_stream_fails_the_response() -> None:
    async with stand(idle_timeout=0.8) as on:
        exchange = await on.asked("a")
        await exchange.send(created(), *opened(), delta("par"))
        broken = await on.client.ended("a")
        assert broken["status"] == "failed"
        assert broken["output"][0]["content"][0]["text"] == "par"
        await hung_up(exchange)
        await on.usable("a")


async def test_b50_comments_count_as_life_and_are_not_relayed() -> None:
    async with stand(idle_timeout=1.0) as on:
        exchange = await on.asked("a")
        await exchange.send(created())
        for _ in range(12):
            await exchange.send(b": ping\n\n")
            await anyio.sleep(0.1)
        await answer(exchange, [completed("r1", [message("ok")])])
        assert (await on.client.ended("a"))["status"] == "completed"
        kinds = [seen["type"] for seen in on.client.transcript]
        assert all("ping" not in kind for kind in kinds)


async def test_b73_a_long_silence_before_created_is_no_fault() -> None:
    async with stand(idle_timeout=0.8) as on:
        exchange = await on.asked("a")
        await anyio.sleep(1.2)  # longer than an answer may be silent, once it has begun
        await answer(exchange)
        assert (await on.client.ended("a"))["status"] == "completed"


async def test_one_silent_lane_is_one_lanes_trouble() -> None:
    async with stand(idle_timeout=1.0) as on:
        silent = await on.asked("silent")
        await silent.send(created())
        busy = [await on.asked(f"l{n}") for n in range(3)]
        for exchange in busy:
            await exchange.send(created(), *opened())
        for _ in range(12):
            await anyio.sleep(0.1)
            for exchange in busy:
                await exchange.send(delta("x"))
        assert (await on.client.ended("silent"))["status"] == "failed"
        for n, exchange in enumerate(busy):
            await answer(exchange, [completed("r1", [message("x" * 12)])])
            assert (await on.client.ended(f"l{n}"))["status"] == "completed"
