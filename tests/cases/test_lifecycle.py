"""field-cases.md 3: every response ends once, and frees its lane; leaving cancels all."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from tests.support.client import connect
from tests.support.events import (
    completed,
    created,
    data,
    delta,
    event,
    failed,
    incomplete,
    message,
    opened,
    response,
)
from tests.support.exchange import hung_up
from tests.support.gateway_stand import answer, stand


async def test_b14_the_end_of_the_body_is_no_terminal() -> None:
    async with stand() as on:
        exchange, partial = await on.turn("a", [created(), *opened(), delta("par")])
        assert exchange.ended
        assert partial["status"] == "failed"
        assert partial["error"]["code"] == "server_error"
        assert partial["output"][0]["content"][0]["text"] == "par"
        await on.usable("a")
        for lane in ("b", "a"):
            refused = await on.refused(lane, previous_response_id=partial["id"])
            assert refused["error"]["code"] == "previous_response_not_found"


@pytest.mark.parametrize("body", [[], [b": hello\n\n"], [data("[DONE]")]])
async def test_b14_the_end_before_created_is_an_error(body: list[bytes]) -> None:
    async with stand() as on:
        exchange = await on.asked("a")
        await answer(exchange, body)
        error = (await on.client.until("error", "response.failed", lane="a"))[-1]
        assert (error["type"], error["stream_id"]) == ("error", "a")
        assert error["status"] == 502
        assert len(on.client.transcript) == 1
        await on.usable("a")


ENDS: dict[str, tuple[list[bytes], str]] = {
    "completed": ([completed()], "completed"),
    "incomplete": ([delta("x"), incomplete()], "incomplete"),
    "filtered": ([incomplete(reason="content_filter")], "incomplete"),
    "failed": ([failed()], "failed"),
    "cancelled": (
        [event("response.cancelled", response=response("r1", "cancelled"))],
        "failed",
    ),
    "error": ([data({"type": "error", "message": "boom"})], "failed"),
    "eof": ([], "failed"),
}


@pytest.mark.parametrize("ending", ENDS)
async def test_b17_every_end_frees_its_lane_and_its_slot(ending: str) -> None:
    chunks, status = ENDS[ending]
    async with stand(max_active=3, max_named=4) as on:
        for _ in range(2):
            for lane in ("a", "b", "c"):
                exchange = await on.asked(lane)
                await answer(exchange, [created(), *opened(), *chunks])
            for lane in ("a", "b", "c"):
                assert (await on.client.ended(lane))["status"] == status
        _, after = await on.turn("d")
        assert after["status"] == "completed"


async def test_b17_sixteen_incomplete_lanes_and_a_seventeenth() -> None:
    async with stand() as on:
        exchanges = [await on.asked(f"l{n}") for n in range(16)]
        await on.client.create("late")
        for exchange in exchanges[1:]:
            await exchange.send(created(), *opened(), delta("x"), incomplete())
        for n in range(1, 16):
            assert (await on.client.ended(f"l{n}"))["status"] == "incomplete"
        late = await on.fake.next()
        await answer(late)
        assert (await on.client.ended("late"))["status"] == "completed"
        await answer(exchanges[0])


async def _leave(client: Any, how: str) -> None:
    if how == "abort":
        client.abort()
    else:
        await client.socket.close(code=1000 if how == "close" else 4000)


@pytest.mark.parametrize("how", ["abort", "close", "close4000"])
async def test_b18_leaving_ends_all_upstream_calls(how: str) -> None:
    async with stand() as on, connect(on.url) as leaver:
        exchanges = []
        for lane in ("a", "b", "c"):
            await leaver.create(lane)
            exchanges.append(await on.fake.next())
        for lane in ("a", "b"):
            await leaver.create(lane, input="queued")
        await exchanges[1].send(created())
        await exchanges[2].send(created(), *opened(), delta("x"))
        await leaver.until("response.output_text.delta", lane="c")
        await _leave(leaver, how)
        await hung_up(*exchanges)
        await on.usable()
        assert len(on.fake.exchanges) == 4


async def test_b18_leaving_while_the_head_is_awaited_and_after_it() -> None:
    async with stand() as on, connect(on.url) as leaver:
        await leaver.create("a")
        silent = await on.fake.next()
        await leaver.create("b")
        headed = await on.fake.next()
        await headed.head()
        await on.usable()
        leaver.abort()
        await hung_up(silent, headed)


async def test_b18_leaving_while_a_retry_waits_starts_nothing() -> None:
    async with stand() as on, connect(on.url) as leaver:
        await leaver.create("a")
        exchange = await on.fake.next()
        await exchange.reply(503, {"error": {"message": "busy"}}, {"retry-after": "1"})
        await on.usable()
        leaver.abort()
        await anyio.sleep(1.2)  # what must not happen would have happened by now
        assert len(on.fake.exchanges) == 2


async def test_b18_leaving_while_the_upstream_is_paused() -> None:
    async with stand(send_buffer_bytes=65536) as on:
        async with connect(on.url, judged=False, max_queue=1) as leaver:
            await leaver.create("a")
            exchange = await on.fake.next()
            await exchange.send(created(), *opened())
            flood = anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_flood, exchange, flood)
                await flood.wait()  # the upstream's own buffers are full: nobody reads
                leaver.abort()
                await hung_up(exchange)
        await on.usable()


async def _flood(exchange: Any, stuck: anyio.Event) -> None:
    try:
        while True:
            with anyio.move_on_after(0.2) as patience:
                await exchange.send(delta("x" * 65536))
            if patience.cancelled_caught:
                stuck.set()
                return
    except ConnectionError:
        raise AssertionError("the gateway hung up on a slow reader") from None


async def test_a_terminal_with_an_open_body_frees_the_lane_and_leaks_nothing() -> None:
    async with stand() as on:
        exchange = await on.asked("a")
        await exchange.send(created(), completed("r1", [message("a")]), b": still here\n\n")
        assert (await on.client.ended("a"))["status"] == "completed"
        await on.usable("a")
        await hung_up(exchange)


async def test_a_body_that_ends_after_its_terminal_keeps_its_connection() -> None:
    async with stand() as on:
        for _ in range(5):
            exchange = await on.asked("a")
            await exchange.send(created(), completed())
            await on.client.ended("a")
            await exchange.send(data("[DONE]"))
            await exchange.end()
        assert on.fake.connections <= 2
