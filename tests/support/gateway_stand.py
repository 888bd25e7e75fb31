"""One gateway between a scripted upstream and one judged client; and turns taken over it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gateway.config.settings import Settings
from tests.support.client import Client, connect
from tests.support.error_log import expect_no_errors
from tests.support.events import reply
from tests.support.gateway import running
from tests.support.upstream import ScriptedUpstream, upstream

if TYPE_CHECKING:
    import logging
    from collections.abc import AsyncIterator, Callable, Iterable

    from tests.support.client import Event
    from tests.support.exchange import Exchange


@dataclass
class Stand:
    """`errors` are the records that were logged as errors; the block's end wants none left."""

    fake: ScriptedUpstream
    client: Client
    url: str
    errors: list[logging.LogRecord]

    async def asked(self, lane: str | None = None, /, **extra: Any) -> Exchange:
        """Send a create and take the upstream request it causes."""
        await self.client.create(lane, **extra)
        return await self.fake.next()

    async def turn(
        self, lane: str | None = None, chunks: Iterable[bytes] | None = None, /, **extra: Any
    ) -> tuple[Exchange, Event]:
        """One whole turn: what the upstream was asked, and the response object that came of it."""
        exchange = await self.asked(lane, **extra)
        await answer(exchange, chunks)
        return exchange, await self.client.ended(lane)

    async def refused(self, lane: str | None = None, /, **extra: Any) -> Event:
        """Send a create that ends in an error event before it reaches the upstream."""
        before = len(self.fake.exchanges)
        await self.client.create(lane, **extra)
        event = await self.client.error(lane)
        assert len(self.fake.exchanges) == before
        return event

    async def known(self, parent: str, lane: str = "probe") -> bool:
        """Whether a create on `lane` finds that parent."""
        await self.client.create(lane, previous_response_id=parent, generate=False)
        end = (await self.client.until("error", "response.completed", lane=lane))[-1]
        return bool(end["type"] != "error")

    async def usable(self, lane: str | None = None) -> None:
        """The lane takes another create as if nothing had been."""
        _, response = await self.turn(lane, input="still there?")
        assert response["status"] == "completed"


@asynccontextmanager
async def stand(
    script: Callable[[Exchange], Any] | None = None, *, key: str | None = None, **settings: Any
) -> AsyncIterator[Stand]:
    """`settings` are the gateway's, `key` is the client's."""
    with expect_no_errors() as errors:
        async with (
            upstream(script) as fake,
            running(Settings(**{"upstream": fake.url, "dialect": "openai", **settings})) as url,
            connect(url, headers={"authorization": f"Bearer {key}"} if key else None) as client,
        ):
            yield Stand(fake, client, url, errors)


async def answer(exchange: Exchange, chunks: Iterable[bytes] | None = None) -> None:
    """Send the chunks (a short proper reply without any) and end the body."""
    await exchange.send(*(reply("ok") if chunks is None else chunks))
    await exchange.end()


def user(text: str) -> Event:
    """A message as clients write it."""
    return {"role": "user", "content": text}


def said(exchange: Exchange) -> list[str]:
    """The texts of all messages in a request's input, whatever form they have."""
    return [text for item in exchange.input for text in _texts(item.get("content"))]


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content or () if "text" in part]


def not_found(error: Event, parent: str) -> None:
    """The exact error of a parent that is not there (B63)."""
    assert error["status"] == 400
    assert error["error"] == {
        "type": "invalid_request_error",
        "code": "previous_response_not_found",
        "message": f"Previous response with id '{parent}' not found.",
        "param": "previous_response_id",
    }
