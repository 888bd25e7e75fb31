"""The operator's story: a key is rotated under load on two gateways, and nothing is lost."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import anyio
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from gateway.config.settings import Settings
from tests.support.client import connect
from tests.support.events import created, delta, in_progress, opened, reply
from tests.support.gateway import serving
from tests.support.hang_guard import HANG
from tests.support.redis_engine import Engine
from tests.support.upstream import ScriptedUpstream, upstream
from tests.support.wire_stand import last_text
from tests.wire.test_client_secrets import page, refused, value
from tests.wire.test_keys import bearer, named, turned_out, written

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gateway.process.server import GatewayServer
    from tests.support.client import Client
    from tests.support.exchange import Exchange

OLD, NEW = "sk-old-one", "sk-new-one"
CONVERSATIONS = 6
#: What a client hears, and asks again, while the store is busy.
WAITING = ("previous_response_not_found", "store_unavailable")


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    with TemporaryDirectory(prefix="ml", dir="/tmp") as folder:  # short, for the socket's sake
        engine = Engine("valkey", Path(folder))
        await engine.start()
        yield engine
        engine.kill()


@dataclass
class Town:
    """Two gateways with one store and one keys file."""

    fake: ScriptedUpstream
    keys: Path
    servers: list[GatewayServer]
    urls: list[str]

    def reload(self) -> None:
        """What SIGHUP does to each."""
        for server in self.servers:
            server.gateway.reload()


@asynccontextmanager
async def town(engine: Engine, where: Path) -> AsyncIterator[Town]:
    keys = where / "keys"
    written(keys, named("acme", OLD))
    async with upstream(answer) as fake:
        settings = Settings(
            upstream=fake.url,
            dialect="openai",
            redis_url=f"unix://{engine.path}",
            keys_file=str(keys),
        )
        async with serving(settings) as one, serving(settings) as two:
            yield Town(fake, keys, [one[0], two[0]], [one[1], two[1]])


async def answer(exchange: Exchange) -> None:
    """Answer each turn; a response that is to stay runs until its client's end."""
    if last_text(exchange) == "stay":
        await exchange.send(created(), in_progress(), *opened(), delta("on and on"))
        await exchange.closed.wait()
    else:
        await exchange.send(*reply("ok"))
        await exchange.end()


@dataclass
class Talk:
    """One conversation, whose client goes to the other gateway with its new key when it is told."""

    name: str
    turns: int = 0
    wanted: int = 0
    parent: str | None = None
    ends: list[tuple[int, str]] = field(default_factory=list)
    on_new_key: int = 0

    async def run(self, on: Town, at: int) -> None:
        secret = OLD
        while True:
            async with connect(on.urls[at % 2], headers=bearer(secret)) as client:
                await self._talk(client, new=secret == NEW)
                self.ends.append(await client.closed())
            at, secret = at + 1, NEW

    async def _talk(self, client: Client, *, new: bool) -> None:
        """Take turns until the key is no longer valid."""
        while True:
            while self.turns >= self.wanted:  # noqa: ASYNC110 - the test sets it
                await anyio.sleep(0.005)
            parent = {} if self.parent is None else {"previous_response_id": self.parent}
            text = f"{self.name} {self.turns}"
            try:
                await client.create("a", input=text, store=True, **parent)
                event = (await client.until("response.completed", "response.failed", "error"))[-1]
            except ConnectionClosed:
                return
            if event["type"] == "response.completed":
                self.parent = event["response"]["id"]
                self.turns += 1
                self.on_new_key += new
            elif event["type"] == "error" and event["error"]["code"] != "api_key_revoked":
                # What has just ended at the other gateway is being written.
                assert event["error"]["code"] in WAITING, event
                await anyio.sleep(0.05)
            else:
                return


async def taken(talks: list[Talk], more: int, *, new: int = 0) -> None:
    """All take so many more turns, some of them with their new key."""
    for one in talks:
        one.wanted = max(one.wanted, one.turns + more)
    with anyio.fail_after(HANG):
        while any(one.turns < one.wanted or one.on_new_key < new for one in talks):  # noqa: ASYNC110
            await anyio.sleep(0.005)


async def test_a_key_is_rotated_and_revoked_and_no_conversation_is_lost(
    engine: Engine, tmp_path: Path
) -> None:
    talks = [Talk(f"talk-{at}") for at in range(CONVERSATIONS)]
    async with town(engine, tmp_path) as on, anyio.create_task_group() as tasks:
        for at, one in enumerate(talks):
            tasks.start_soon(one.run, on, at)
        await taken(talks, 2)
        second = named("acme-2", NEW, tenant="acme")
        written(on.keys, named("acme", OLD), second)
        on.reload()
        await taken(talks, 1)
        async with connect(on.urls[0], headers=bearer(OLD)) as stuck:
            await stuck.create("a", input="stay")
            await stuck.until("response.output_text.delta")
            for one in talks:
                one.wanted += 2  # some of these are under way when the key ends
            await anyio.lowlevel.checkpoint()
            written(on.keys, second)
            on.reload()
            assert (await stuck.ended("a"))["status"] == "failed"
            await turned_out(stuck, "api_key_revoked")
        await taken(talks, 4, new=2)
        for url in on.urls:
            with pytest.raises(InvalidStatus) as raised:
                async with connect(url, headers=bearer(OLD)):
                    pass
            assert raised.value.response.status_code == 401
        tasks.cancel_scope.cancel()
        await anyio.lowlevel.checkpoint()
    for one in talks:
        assert one.ends == [(1008, "API key no longer valid")]
        last = max(
            (
                each.input
                for each in on.fake.exchanges
                if last_text(each).startswith(f"{one.name} ")
            ),
            key=len,
        )
        said = [item["content"] for item in last if item.get("role") == "user"]
        texts = [text if isinstance(text, str) else text[0]["text"] for text in said]
        assert texts == [f"{one.name} {at}" for at in range(len(texts))]
        assert len(texts) >= one.turns >= 4


async def test_without_the_store_keys_are_checked_and_secrets_by_who_knows_them(
    engine: Engine, tmp_path: Path
) -> None:
    async with town(engine, tmp_path) as on:
        here, there = on.urls
        secret = await value(here, OLD)
        engine.kill()
        for url in on.urls:
            async with connect(url, headers=bearer(OLD)) as client:
                await client.create("a")
                assert (await client.ended("a"))["status"] == "completed"
        async with page(here, secret, None) as client:
            await client.create("a")
            assert (await client.ended("a"))["status"] == "completed"
        assert await refused(there, secret, None) == (503, "store_unavailable")
        assert await refused(here, secret + "A", None) == (401, "invalid_client_secret")
        # A revoked key ends here without the store, too.
        async with page(here, secret, None) as client, connect(here, headers=bearer(OLD)) as other:
            written(on.keys, named("acme-2", NEW, tenant="acme"))
            on.reload()
            for one in (client, other):
                await turned_out(one, "api_key_revoked")
        await engine.start()
        second, statuses = await value(here, NEW), set[int]()
        with anyio.fail_after(HANG):
            while True:
                try:
                    async with page(there, second, None):
                        break
                except InvalidStatus as away:
                    statuses.add(away.response.status_code)
                    await anyio.sleep(0.05)
        assert statuses <= {503}
