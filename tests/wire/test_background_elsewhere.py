"""Responses in the background, asked about at another process of the same store."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from gateway.config.settings import Settings
from lanes.stores.background import Progress, ResponseName
from lanes.stores.redis_background import RedisBackgroundStore
from steering.redis.lease import Lease
from tests.support.events import closed, completed, created, delta, in_progress, message, opened
from tests.support.exchange import hung_up
from tests.support.gateway import running, serving
from tests.support.hang_guard import HANG
from tests.support.http_client import posted, requested
from tests.support.redis_engine import Engine
from tests.support.steer_stores import on_file
from tests.support.upstream import ScriptedUpstream, upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.exchange import Exchange

BACKGROUND: dict[str, Any] = {"background": True, "store": True}


@dataclass
class Two:
    """Two gateways on one store, before one upstream."""

    fake: ScriptedUpstream
    here: str
    there: str


def settings(fake: ScriptedUpstream, engine: Engine) -> Settings:
    return Settings(
        upstream=fake.url,
        dialect="openai",
        redis_url=f"unix://{engine.path}",
        drain_timeout=0.2,
    )


@asynccontextmanager
async def standing(engine: Engine) -> AsyncIterator[Two]:
    async with upstream() as fake:
        given = settings(fake, engine)
        async with running(given) as here, running(given) as there:
            yield Two(fake, here, there)


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    with TemporaryDirectory(prefix="ml", dir="/tmp") as folder:  # short, for the socket's sake
        engine = Engine("valkey", Path(folder))
        await engine.start()
        yield engine
        engine.kill()


async def ask(url: str, method: str, path: str) -> tuple[int, dict[str, Any]]:
    async with requested(url, method, f"/responses/{path}") as answer:
        return answer.status, await answer.json()


async def begun(on: Two) -> tuple[str, Exchange]:
    """A response runs here, and has said its first word."""
    async with posted(on.here, BACKGROUND) as answer:
        first = await answer.json()
    assert await ask(on.there, "GET", first["id"]) == (200, first)
    exchange = await on.fake.next()
    await exchange.send(created(), in_progress(), *opened(), delta("one "))
    return first["id"], exchange


async def finish(exchange: Exchange) -> None:
    text = "one two"
    await exchange.send(delta("two"), *closed(text), completed(output=[message(text)]))
    await exchange.end()


async def reached(url: str, name: str, wanted: str) -> dict[str, Any]:
    with anyio.fail_after(HANG):
        while True:
            status, response = await ask(url, "GET", name)
            assert status == 200, response
            if response["status"] == wanted:
                return response
            await anyio.sleep(0.01)


async def test_seen_and_followed_there(engine: Engine) -> None:
    async with standing(engine) as on:
        name, exchange = await begun(on)
        path = f"/responses/{name}?stream=true"
        async with requested(on.there, "GET", path) as there:
            await there.until("response.output_text.delta")
            assert (await reached(on.there, name, "in_progress"))["output"] == []
            await finish(exchange)
            events = await there.events()
        async with requested(on.here, "GET", path) as here:
            assert await here.events() == events
        for url in (on.here, on.there):
            assert await reached(url, name, "completed") == events[-1]["response"]
            rest = f"{path}&starting_after={len(events) - 3}"
            async with requested(url, "GET", rest, judged=False) as answer:
                assert await answer.events() == events[-2:]
            over = f"{name}?stream=true&starting_after={len(events)}"
            assert (await ask(url, "GET", over))[0] == 400


async def test_cancelled_there(engine: Engine) -> None:
    async with standing(engine) as on:
        name, exchange = await begun(on)
        status, ended = await ask(on.there, "POST", f"{name}/cancel")
        assert (status, ended["status"]) == (200, "cancelled")
        await hung_up(exchange)
        for url in (on.here, on.there):
            assert await ask(url, "GET", name) == (200, ended)
            assert await ask(url, "POST", f"{name}/cancel") == (200, ended)


@pytest.mark.parametrize("words", ["some", "none yet"])
async def test_deleted_there(engine: Engine, words: str) -> None:
    """Its owner has nothing to write meanwhile, if its backend is silent."""
    async with standing(engine) as on:
        if words == "some":
            name, exchange = await begun(on)
        else:
            async with posted(on.here, BACKGROUND) as answer:
                name = (await answer.json())["id"]
            exchange = await on.fake.next()
        assert (await ask(on.there, "DELETE", name))[0] == 200
        for url in (on.here, on.there):
            assert (await ask(url, "GET", name))[0] == 404
            assert (await ask(url, "DELETE", name))[0] == 404
        await hung_up(exchange)


async def test_sent_again_there(engine: Engine) -> None:
    headers = {"idempotency-key": "k1"}
    async with standing(engine) as on:
        async with posted(on.here, {**BACKGROUND, "stream": True}, headers) as here:
            seen = await here.until("response.queued")
            async with posted(on.there, {**BACKGROUND, "stream": True}, headers) as there:
                exchange = await on.fake.next()
                await exchange.send(created(), in_progress(), *opened(), delta("one "))
                await finish(exchange)
                events = await there.events()
            assert seen + await here.events() == seen + events
        assert len(on.fake.exchanges) == 1


async def test_a_process_that_died(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Lease.__init__.__kwdefaults__ is not None
    monkeypatch.setitem(Lease.__init__.__kwdefaults__, "ttl", 0.6)
    name = ResponseName("open", f"resp_{'d' * 32}")
    body = b'{"id":"%b","status":"in_progress","output":[],"background":true,"error":null}'
    async with engine.client() as client, standing(engine) as on:
        dead = Lease(client, "dead", ttl=0.1)
        store = RedisBackgroundStore(client, dead)
        await store.open(name, body % name.id.encode())
        await store.advance(name, Progress(body % name.id.encode(), 0, [b"event: a\ndata: {}\n\n"]))
        ended = await reached(on.here, name.id, "failed")
        assert ended["error"]["code"] == "server_error"
        assert await ask(on.there, "GET", name.id) == (200, ended)
        assert (await ask(on.there, "POST", f"{name.id}/cancel"))[0] == 409
        path = f"/responses/{name.id}?stream=true&starting_after=0"
        async with requested(on.there, "GET", path, judged=False) as answer:
            (last,) = await answer.events()
        assert (last["type"], last["sequence_number"]) == ("response.failed", 1)
        assert last["response"] == ended


async def test_without_the_store_none_is_started(engine: Engine) -> None:
    async with standing(engine) as on:
        name, exchange = await begun(on)
        async with engine.client() as client:
            await on_file(client)
        engine.kill()
        async with posted(on.here, BACKGROUND) as answer:
            error = (await answer.json())["error"]
            assert (answer.status, error["code"]) == (503, "store_unavailable")
        for path in (name, f"{name}?stream=true"):
            assert (await ask(on.there, "GET", path))[0] == 503
        # What ran before goes on, and is written once the store is back.
        await finish(exchange)
        await reached(on.here, name, "completed")
        await engine.start()
        await reached(on.there, name, "completed")


@pytest.mark.parametrize("over", [False, True])
async def test_without_the_store_a_gateway_stops_all_the_same(
    engine: Engine, caplog: pytest.LogCaptureFixture, *, over: bool
) -> None:
    """Whoever asks for the response later hears that its process is gone (D37)."""
    async with upstream() as fake, serving(settings(fake, engine)) as (server, here):
        name, exchange = await begun(Two(fake, here, here))
        engine.kill()
        if over:
            await finish(exchange)
            await reached(here, name, "completed")
        server.should_exit = True
        with anyio.fail_after(HANG):
            while len(server.gateway._running):  # noqa: ASYNC110 - the server has no event for it
                await anyio.sleep(0.01)
    assert f"{name} is lost: the gateway stops, and its store is away" in caplog.text
