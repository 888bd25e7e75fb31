"""What a response in the background was made from, while it runs and after it failed."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from openai.types.responses import ResponseItemList

from gateway.config.settings import Settings
from tests.support.events import created, delta, failed, in_progress, message, opened, reply
from tests.support.gateway import running
from tests.support.hang_guard import HANG
from tests.support.http_client import posted, requested
from tests.support.redis_engine import Engine
from tests.support.upstream import ScriptedUpstream, upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.exchange import Exchange

BACKGROUND: dict[str, Any] = {"background": True, "store": True}


class Two:
    """Two gateways on one store, before one upstream."""

    def __init__(self, fake: ScriptedUpstream, here: str, there: str) -> None:
        self.fake, self.here, self.there = fake, here, there

    async def ask(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, there: bool = False
    ) -> Any:
        data = None if body is None else json.dumps(body).encode()
        lines = {} if body is None else {"content-type": "application/json"}
        url = self.there if there else self.here
        async with requested(url, method, path, data, lines) as answer:
            said = await answer.json()
            assert answer.status == 200, said
            return said

    async def begin(self, **fields: Any) -> tuple[str, Exchange]:
        """A response runs here, and has said its first word."""
        async with posted(self.here, {**BACKGROUND, **fields}) as answer:
            name = (await answer.json())["id"]
        exchange = await self.fake.next()
        await exchange.send(created(), in_progress(), *opened(), delta("one "))
        return name, exchange

    async def fail(self, name: str, exchange: Exchange) -> None:
        await exchange.send(failed())
        await exchange.end()
        await self.reached(name, "failed")

    async def reached(self, name: str, wanted: str) -> None:
        with anyio.fail_after(HANG):
            while True:
                said = await self.ask("GET", f"/responses/{name}", there=True)
                if said["status"] == wanted:
                    return
                await anyio.sleep(0.01)

    async def items(self, name: str, query: str = "order=asc") -> list[Any]:
        """What it was made from, which is the same in both processes."""
        path = f"/responses/{name}/input_items?{query}"
        pages = [await self.ask("GET", path, there=there) for there in (False, True)]
        assert pages[0] == pages[1]
        ResponseItemList.model_validate(pages[0])
        listed: list[Any] = pages[0]["data"]
        return listed


@pytest.fixture
async def on() -> AsyncIterator[Two]:
    with TemporaryDirectory(prefix="ml", dir="/tmp") as folder:  # short, for the socket's sake
        engine = Engine("valkey", Path(folder))
        await engine.start()
        async with upstream() as fake:
            settings = Settings(
                upstream=fake.url,
                dialect="openai",
                redis_url=f"unix://{engine.path}",
                drain_timeout=0.2,
            )
            async with running(settings) as here, running(settings) as there:
                yield Two(fake, here, there)
        engine.kill()


def texts(items: list[Any]) -> list[str]:
    return [item["content"][0]["text"] for item in items]


async def test_while_it_runs_and_once_it_failed(on: Two) -> None:
    given = [{"role": "user", "content": "two"}, {"id": "msg_mine", **message("three", "msg_mine")}]
    name, exchange = await on.begin(input=given)
    items = await on.items(name)
    assert texts(items) == ["two", "three"]
    assert items[1]["id"] == "msg_mine"
    assert await on.items(name, "limit=1") == items[1:]
    assert await on.items(name, f"after={items[0]['id']}&order=asc") == items[1:]
    await on.fail(name, exchange)
    assert await on.items(name) == items


async def test_it_is_the_same_once_it_is_over(on: Two) -> None:
    name, exchange = await on.begin(input="two")
    items = await on.items(name)
    await exchange.send(*reply("one two")[2:])
    await exchange.end()
    await on.reached(name, "completed")
    assert await on.items(name) == items


async def test_cancelled_before_it_said_anything(on: Two) -> None:
    async with posted(on.here, {**BACKGROUND, "input": "two"}) as answer:
        name = (await answer.json())["id"]
    await on.ask("POST", f"/responses/{name}/cancel", {})
    assert texts(await on.items(name)) == ["two"]


async def test_the_chain_before_it(on: Two) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_reply, on.fake)
        async with posted(on.here, {"store": True, "input": "one"}) as answer:
            parent = (await answer.json())["id"]
    name, exchange = await on.begin(input="three", previous_response_id=parent)
    assert texts(await on.items(name)) == ["one", "two", "three"]
    await on.fail(name, exchange)
    assert texts(await on.items(name)) == ["one", "two", "three"]
    await on.ask("DELETE", f"/responses/{parent}")
    async with requested(on.there, "GET", f"/responses/{name}/input_items") as answer:
        assert answer.status == 404


async def _reply(fake: ScriptedUpstream) -> None:
    exchange = await fake.next()
    await exchange.send(*reply("two"))
    await exchange.end()


@pytest.mark.parametrize("before", [[], ["one", "two"]])
async def test_the_conversation_before_it(on: Two, before: list[str]) -> None:
    items = [{"role": "user", "content": text} for text in before]
    conversation = (await on.ask("POST", "/conversations", {"items": items}))["id"]
    name, exchange = await on.begin(input="three", conversation=conversation)
    late = {"items": [{"role": "user", "content": "later"}]}
    await on.ask("POST", f"/conversations/{conversation}/items", late)
    assert texts(await on.items(name)) == [*before, "three"]
    await on.fail(name, exchange)
    assert texts(await on.items(name)) == [*before, "three"]


async def test_of_another_key_there_is_nothing() -> None:
    async with upstream() as fake:
        settings = Settings(
            upstream=fake.url, dialect="openai", api_keys=("sk-1", "sk-2"), drain_timeout=0.2
        )
        async with running(settings) as url:
            one, two = ({"authorization": f"Bearer {key}"} for key in ("sk-1", "sk-2"))
            async with posted(url, BACKGROUND, one) as answer:
                path = f"/responses/{(await answer.json())['id']}/input_items"
            for headers, status in ((one, 200), (two, 404)):
                async with requested(url, "GET", path, None, headers) as answer:
                    assert answer.status == status
