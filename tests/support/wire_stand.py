"""One gateway in front of a scripted upstream, and what must be true when it has ended."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from gateway.client.socket import ClientSocket
from gateway.config.settings import Settings
from tests.support.client import Client, connect
from tests.support.error_log import expect_no_errors
from tests.support.events import closed, completed, created, delta, in_progress, message, opened
from tests.support.gateway import serving
from tests.support.hang_guard import HANG
from tests.support.upstream import ScriptedUpstream, upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from gateway.process.server import GatewayServer
    from tests.support.exchange import Exchange


@dataclass
class WireStand:
    """`url` is the base URL that a client of the Responses API is given."""

    fake: ScriptedUpstream
    server: GatewayServer
    url: str

    @property
    def port(self) -> int:
        return int(self.url.split(":")[2].split("/")[0])

    async def lane(self, client: Client, name: str | None = None, /, **extra: Any) -> RunningLane:
        """Start a response on this lane; it streams once this returns."""
        return await started(self.fake, client, name, **extra)


@dataclass
class RunningLane:
    """A lane with a response under way, whose upstream answers when it is told to."""

    client: Client
    name: str | None
    exchange: Exchange
    text: str = ""

    async def says(self, word: str) -> None:
        """One delta goes through."""
        self.text += word
        await self.exchange.send(delta(word))
        events = await self.client.until("response.output_text.delta", lane=self.name)
        assert [event["delta"] for event in events] == [word]

    async def ends(self) -> dict[str, Any]:
        """The rest of the response goes through; returns its last snapshot."""
        if not self.text:
            await self.says("ok")
        await self.exchange.send(*closed(self.text), completed(output=[message(self.text)]))
        await self.exchange.end()
        response = await self.client.ended(self.name)
        assert response["status"] == "completed"
        assert response["output"][0]["content"][0]["text"] == self.text
        return response


async def started(
    fake: ScriptedUpstream, client: Client, name: str | None, /, **extra: Any
) -> RunningLane:
    """A create goes through, and its answer begins."""
    await client.create(name, **extra)
    exchange = await fake.next()
    await exchange.send(created(), in_progress(), *opened())
    await client.until("response.content_part.added", lane=name)
    return RunningLane(client, name, exchange)


@asynccontextmanager
async def standing(
    script: Callable[[Exchange], Any] | None = None, **settings: Any
) -> AsyncIterator[WireStand]:
    """Serve with these settings. At the end nothing was logged as an error and no task is left."""
    before = asyncio.all_tasks()
    with expect_no_errors():
        async with (
            upstream(script) as fake,
            serving(Settings(**{"upstream": fake.url, "dialect": "openai", **settings})) as (
                server,
                url,
            ),
        ):
            yield WireStand(fake, server, url)
    assert asyncio.all_tasks() == before


@asynccontextmanager
async def talking(
    script: Callable[[Exchange], Any] | None = None, **settings: Any
) -> AsyncIterator[tuple[WireStand, Client]]:
    """The same with one client, whose every event is judged."""
    async with standing(script, **settings) as stand, connect(stand.url) as client:
        yield stand, client


async def disconnected(stand: WireStand, within: float = HANG) -> None:
    """All connections end, each a moment after its upstreams."""
    with anyio.fail_after(within):
        while stand.server.server_state.connections:  # noqa: ASYNC110 - there is no event for it
            await anyio.sleep(0.005)


async def unread(stand: WireStand, size: int) -> None:
    """So many bytes wait in the gateway for somebody to read them."""
    with anyio.fail_after(HANG):
        while sum(socket.unsent for socket in sockets(stand)) < size:  # noqa: ASYNC110
            await anyio.sleep(0.001)


def sockets(stand: WireStand) -> list[ClientSocket]:
    """The gateway's end of each WebSocket."""
    return [one for one in stand.server.server_state.connections if isinstance(one, ClientSocket)]


def last_text(exchange: Exchange) -> str:
    """What the last user message of a request says, as a string or in a part."""
    content = exchange.input[-1]["content"]
    said: str = content if isinstance(content, str) else content[0]["text"]
    return said


def shape(event: dict[str, Any]) -> tuple[str | None, int, str | None, str | None]:
    """What an error event says: code, status, param and lane."""
    assert event["type"] == "error", event
    assert ("stream_id" in event) == (event.get("stream_id") is not None)
    error = event["error"]
    return error["code"], event["status"], error["param"], event.get("stream_id")
