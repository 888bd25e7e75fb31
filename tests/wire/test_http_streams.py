"""A response over HTTP from outside: when its client leaves, when the gateway stops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from tests.support.events import created, delta, failed, in_progress, opened, reply
from tests.support.exchange import hung_up
from tests.support.http_client import posted, requested
from tests.support.wire_stand import standing

if TYPE_CHECKING:
    from tests.support.exchange import Exchange

STREAM: dict[str, Any] = {"stream": True}
WHOLE: dict[str, Any] = {"stream": False}


async def test_a_client_that_leaves_in_mid_answer() -> None:
    async with standing() as stand, anyio.create_task_group() as tasks:

        async def leave_after_a_word() -> None:
            async with posted(stand.url, STREAM) as answer:
                await answer.until("response.output_text.delta")

        tasks.start_soon(leave_after_a_word)
        exchange = await stand.fake.next()
        await exchange.send(created(), in_progress(), *opened(), delta("one"))
        await hung_up(exchange)


@pytest.mark.parametrize("body", [STREAM, WHOLE], ids=["stream", "whole"])
async def test_a_client_that_leaves_while_it_waits(body: dict[str, Any]) -> None:
    async with standing() as stand, anyio.create_task_group() as tasks:
        gone = anyio.CancelScope()

        async def wait() -> None:
            with gone:
                async with posted(stand.url, body):
                    raise AssertionError("nothing was answered yet")

        tasks.start_soon(wait)
        exchange = await stand.fake.next()
        gone.cancel()
        await hung_up(exchange)


async def test_an_error_of_the_backend_comes_with_its_headers() -> None:
    async def refuse(exchange: Exchange) -> None:
        error = {"message": "slow down", "type": "tokens", "code": "rate_limit_exceeded"}
        headers = {"retry-after": "7", "x-request-id": "req_1", "x-ratelimit-limit-tokens": "9"}
        await exchange.reply(429, {"error": error}, {**headers, "x-secret": "s"})

    async with standing(refuse, retries=0) as stand:
        for body in (STREAM, WHOLE):
            async with posted(stand.url, body) as answer:
                said = await answer.json()
                assert answer.status == 429
                assert said["error"] == {
                    "message": "slow down",
                    "type": "tokens",
                    "code": "rate_limit_exceeded",
                    "param": None,
                }
                assert answer.headers["retry-after"] == "7"
                assert answer.headers["x-request-id"] == "req_1"
                assert answer.headers["x-ratelimit-limit-tokens"] == "9"
                assert "x-secret" not in answer.headers


async def test_a_failure_after_the_first_event_is_of_the_response() -> None:
    async with standing(lambda _: [created(), *opened(), delta("one"), failed()]) as stand:
        async with posted(stand.url, STREAM) as answer:
            events = await answer.events()
            assert events[-1]["type"] == "response.failed"
            assert events[-1]["response"]["output"][0]["content"][0]["text"] == "one"
        async with posted(stand.url, WHOLE) as answer:
            response = await answer.json()
            assert (answer.status, response["status"]) == (200, "failed")
            assert response["error"]["message"].startswith("boom")


async def test_silence_is_broken_by_comments() -> None:
    async with standing(heartbeat_interval=0.02) as stand, anyio.create_task_group() as tasks:

        async def speak_late() -> None:
            exchange = await stand.fake.next()
            await exchange.send(*reply("ok")[:2])
            await answered.wait()
            await exchange.send(*reply("ok")[2:])
            await exchange.end()

        answered = anyio.Event()
        tasks.start_soon(speak_late)
        async with posted(stand.url, STREAM) as answer:
            await answer.until("response.in_progress")
            await answer.comment()
            await answer.comment()
            answered.set()
            assert (await answer.events())[-1]["type"] == "response.completed"
            assert set(answer.comments) == {": keep-alive"}


async def test_a_gateway_that_stops_lets_them_finish() -> None:
    async with standing() as stand, anyio.create_task_group() as tasks:
        ended: list[str] = []

        async def read(body: dict[str, Any]) -> None:
            async with posted(stand.url, body) as answer:
                if body is STREAM:
                    ended.append((await answer.events())[-1]["type"])
                else:
                    ended.append((await answer.json())["status"])

        tasks.start_soon(read, STREAM)
        tasks.start_soon(read, WHOLE)
        exchanges = [await stand.fake.next() for _ in range(2)]
        for exchange in exchanges:
            await exchange.send(created(), in_progress(), *opened())
        stand.server.should_exit = True
        while not stand.server.gateway.census.draining:  # noqa: ASYNC110 - there is no event for it
            await anyio.sleep(0.001)
        async with posted(stand.url, STREAM) as late:
            assert late.status == 503
            assert (await late.json())["error"]["code"] == "server_shutting_down"
            assert int(late.headers["retry-after"]) > 0
        async with requested(
            stand.url.removesuffix("/v1"), "GET", "/ready?exclude=upstreams&exclude=store"
        ) as health:
            assert health.status == 503
        for exchange in exchanges:
            await exchange.send(*reply("ok")[2:])
            await exchange.end()
    assert sorted(ended) == ["completed", "response.completed"]


async def test_a_gateway_that_has_no_time_left_fails_them() -> None:
    async with standing(drain_timeout=0.2) as stand, anyio.create_task_group() as tasks:
        ended: list[Any] = []

        async def read(body: dict[str, Any]) -> None:
            async with posted(stand.url, body) as answer:
                if body is STREAM:
                    ended.append((await answer.events())[-1]["response"])
                else:
                    ended.append(await answer.json())

        tasks.start_soon(read, STREAM)
        tasks.start_soon(read, WHOLE)
        for exchange in [await stand.fake.next() for _ in range(2)]:
            await exchange.send(created(), in_progress(), *opened(), delta("one"))
        stand.server.should_exit = True
    assert [response["status"] for response in ended] == ["failed", "failed"]
    assert {response["error"]["code"] for response in ended} == {"server_error"}
