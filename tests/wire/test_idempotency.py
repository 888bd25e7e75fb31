"""`Idempotency-Key`: a create that is sent again gets the same response, and costs one request."""

from __future__ import annotations

import gzip
import json
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from gateway.config.settings import Settings
from gateway.http import event_log
from gateway.http.claiming import IdempotentRequest
from lanes.stores import claims, redis_claims
from tests.support.events import (
    closed,
    completed,
    created,
    delta,
    in_progress,
    message,
    opened,
    reply,
)
from tests.support.exchange import hung_up
from tests.support.gateway import running
from tests.support.hang_guard import HANG
from tests.support.http_client import Answer, posted
from tests.support.redis_engine import Engine
from tests.support.upstream import ScriptedUpstream, upstream
from tests.support.wire_stand import WireStand, standing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from tests.support.exchange import Exchange

STREAM: dict[str, Any] = {"stream": True}
WHOLE: dict[str, Any] = {"stream": False}
FORMS = pytest.mark.parametrize("form", [STREAM, WHOLE], ids=["stream", "whole"])


def keyed(
    url: str, body: dict[str, Any] | bytes, name: str = "k1", **headers: str
) -> AbstractAsyncContextManager[Answer]:
    return posted(url, body, {"idempotency-key": name, **headers})


async def response(answer: Answer) -> dict[str, Any]:
    """The response object of either form of an answer."""
    assert answer.status == 200, await answer.body()
    if answer.headers["content-type"] == "application/json":
        said: dict[str, Any] = await answer.json()
        return said
    ended: dict[str, Any] = (await answer.events())[-1]["response"]
    return ended


async def begin(fake: ScriptedUpstream) -> Exchange:
    """The upstream is asked, and says its first word."""
    exchange = await fake.next()
    await exchange.send(created(), in_progress(), *opened(), delta("one "))
    return exchange


async def finish(exchange: Exchange) -> None:
    text = "one two"
    await exchange.send(delta("two"), *closed(text), completed(output=[message(text)]))
    await exchange.end()


@FORMS
async def test_a_response_that_is_over(form: dict[str, Any]) -> None:
    async with standing(lambda _: reply("hello ", "you")) as stand:
        async with keyed(stand.url, form) as answer:
            first = await response(answer)
        async with keyed(stand.url, form) as answer:
            assert await response(answer) == first
        async with keyed(stand.url, form, "k2") as answer:
            assert (await response(answer))["id"] != first["id"]
        assert len(stand.fake.exchanges) == 2


async def test_a_body_is_the_same_packed_or_not() -> None:
    body = json.dumps({"model": "m", "input": "hi"}).encode()
    async with standing(lambda _: reply("ok")) as stand:
        async with keyed(stand.url, body) as answer:
            first = await response(answer)
        packed = gzip.compress(body)
        async with keyed(stand.url, packed, **{"content-encoding": "gzip"}) as answer:
            assert await response(answer) == first


@FORMS
async def test_a_response_that_runs(form: dict[str, Any]) -> None:
    ended: list[Any] = []

    async def ask() -> None:
        async with keyed(stand.url, form) as answer:
            ended.append((await response(answer), answer.transcript))

    async with standing() as stand, anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        exchange = await begin(stand.fake)
        tasks.start_soon(ask)
        async with keyed(stand.url, {"input": "another"}) as other:
            assert other.status == 422
        await finish(exchange)
    (first, events), again = ended
    assert again == (first, events)
    assert len(stand.fake.exchanges) == 1
    assert [e["sequence_number"] for e in events] == list(range(len(events)))


@FORMS
async def test_a_client_that_left_comes_back_for_it(form: dict[str, Any]) -> None:
    gone = anyio.CancelScope()

    async def leave() -> None:
        with gone:
            async with keyed(stand.url, form) as answer:
                await answer.body()

    async with standing() as stand, anyio.create_task_group() as tasks:
        tasks.start_soon(leave)
        exchange = await begin(stand.fake)
        gone.cancel()
        while stand.server.server_state.connections:  # noqa: ASYNC110 - there is no event for it
            await anyio.sleep(0.001)
        await finish(exchange)
        async with keyed(stand.url, form) as answer:
            said = await response(answer)
    assert said["output"][0]["content"][0]["text"] == "one two"
    assert len(stand.fake.exchanges) == 1


async def test_events_are_kept_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "MAX_BYTES", 100_000)

    async def babble(exchange: Exchange) -> None:
        await exchange.send(created(), in_progress(), *opened())
        with suppress(ConnectionError):
            while True:
                await exchange.send(delta("."))
                # The gateway reads meanwhile, and not megabytes at once from the system's buffers.
                await anyio.lowlevel.checkpoint()

    async with standing(babble) as stand:
        async with keyed(stand.url, STREAM) as answer:
            ended = await response(answer)
            assert (ended["status"], ended["error"]["code"]) == ("failed", "server_error")
            assert len(answer.transcript) < 2000
        async with keyed(stand.url, STREAM) as answer:
            assert await response(answer) == ended
        await hung_up(*stand.fake.exchanges)
    assert len(stand.fake.exchanges) == 1


async def test_another_body_and_another_client() -> None:
    keys = ("sk-one", "sk-two")
    async with standing(lambda _: reply("ok"), api_keys=keys) as stand:
        async with keyed(stand.url, WHOLE, authorization="Bearer sk-one") as answer:
            first = await response(answer)
        async with keyed(stand.url, STREAM, authorization="Bearer sk-one") as answer:
            error = (await answer.json())["error"]
            assert (answer.status, error["code"]) == (422, "idempotency_key_reused")
            assert error["param"] == "Idempotency-Key"
        async with keyed(stand.url, STREAM, authorization="Bearer sk-two") as answer:
            assert (await response(answer))["id"] != first["id"]


async def test_what_was_refused_is_tried_again() -> None:
    async def say(exchange: Exchange) -> None:
        if len(stand.fake.exchanges) == 1:
            await exchange.reply(429, {"error": {"message": "slow down"}})
        else:
            await exchange.send(*reply("ok"))
            await exchange.end()

    async with standing(say, retries=0) as stand:
        async with keyed(stand.url, STREAM) as answer:
            assert answer.status == 429
        async with keyed(stand.url, STREAM) as answer:
            assert (await response(answer))["status"] == "completed"


@pytest.mark.parametrize("name", ["", "x" * 256])
async def test_a_key_that_is_none(name: str) -> None:
    async with standing() as stand, keyed(stand.url, WHOLE, name) as answer:
        error = (await answer.json())["error"]
        assert (answer.status, error["code"], error["param"]) == (
            400,
            "invalid_value",
            "Idempotency-Key",
        )


@asynccontextmanager
async def two(engine: Engine) -> AsyncIterator[tuple[ScriptedUpstream, str, str]]:
    """Two gateways on one store, before one upstream."""
    async with upstream() as fake:
        settings = Settings(upstream=fake.url, dialect="openai", redis_url=f"unix://{engine.path}")
        async with running(settings) as one, running(settings) as two:
            yield fake, one, two


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    with TemporaryDirectory(prefix="ml", dir="/tmp") as folder:  # short, for the socket's sake
        engine = Engine("valkey", Path(folder))
        await engine.start()
        yield engine
        engine.kill()


@FORMS
async def test_another_process_waits_for_it(engine: Engine, form: dict[str, Any]) -> None:
    ended: list[dict[str, Any]] = []

    async def ask(url: str) -> None:
        async with keyed(url, form) as answer:
            ended.append(await response(answer))

    async with two(engine) as (fake, here, there), anyio.create_task_group() as tasks:
        tasks.start_soon(ask, here)
        exchange = await begin(fake)
        tasks.start_soon(ask, there)
        async with keyed(there, {"input": "another"}) as other:
            assert other.status == 422
        await finish(exchange)
        with anyio.fail_after(HANG):
            while len(ended) < 2:  # noqa: ASYNC110 - two tasks end
                await anyio.sleep(0.01)
        async with keyed(there, form) as answer:
            ended.append(await response(answer))
    assert ended[0] == ended[1] == ended[2]
    assert len(fake.exchanges) == 1


async def test_a_process_that_died_does_not_keep_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (claims, redis_claims):
        monkeypatch.setattr(module, "CLAIM_TTL", 1)
    body = {"model": "m", "store": False, "input": "hi", **WHOLE}
    request = IdempotentRequest("open", "k1", json.dumps(body).encode())
    async with two(engine) as (fake, here, _):
        async with engine.client() as client:
            dead = claims.Claim("d" * 16, request.digest)
            await redis_claims.RedisClaimStore(client).claim(*request.place, dead)
        async with anyio.create_task_group() as tasks:

            async def say() -> None:
                await finish(await begin(fake))

            tasks.start_soon(say)
            async with keyed(here, WHOLE) as answer:
                assert (await response(answer))["status"] == "completed"
    assert len(fake.exchanges) == 1


async def test_without_the_store_nothing_is_carried_twice(engine: Engine) -> None:
    async with two(engine) as (fake, here, _):
        engine.kill()
        async with keyed(here, WHOLE) as answer:
            error = (await answer.json())["error"]
            assert (answer.status, error["code"]) == (503, "store_unavailable")
        assert fake.exchanges == []


async def test_a_gateway_that_stops_lets_it_finish() -> None:
    stand: WireStand
    async with standing() as stand, anyio.create_task_group() as tasks:
        gone = anyio.CancelScope()

        async def leave() -> None:
            with gone:
                async with keyed(stand.url, WHOLE) as answer:
                    await answer.body()

        tasks.start_soon(leave)
        exchange = await begin(stand.fake)
        gone.cancel()
        stand.server.should_exit = True
        while not stand.server.gateway.census.draining:  # noqa: ASYNC110 - there is no event for it
            await anyio.sleep(0.001)
        await finish(exchange)
    assert exchange.ended
