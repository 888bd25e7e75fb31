"""Responses to steer: begun, steered, and what their successors were asked for."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.events import (
    closed,
    completed,
    created,
    delta,
    event,
    in_progress,
    message,
    opened,
)
from tests.support.gateway_stand import Stand, stand
from tests.support.judge_response import TERMINALS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.client import Client, Event
    from tests.support.exchange import Exchange

SETTINGS: dict[str, Any] = {
    "temperature": 0.5,
    "tools": [],
    "instructions": "be brief",
    "metadata": {"k": "v"},
}


@dataclass
class Running:
    """A response that streams on `lane`; the test is its upstream."""

    on: Stand
    client: Client
    lane: str | None
    exchange: Exchange
    id: str

    async def send(self, *chunks: bytes, until: str | None = None) -> list[Event]:
        """Let the upstream go on, and wait for an event that shows that it came through."""
        await self.exchange.send(*chunks)
        return [] if until is None else await self.client.until(until, lane=self.lane)

    async def says(self, *texts: str) -> None:
        """Deltas go through, each to the client before the next."""
        for text in texts:
            seen = await self.send(delta(text), until="response.output_text.delta")
            assert seen[-1]["delta"] == text

    async def steer(self, value: Any = "steer", effective: str | None = None) -> str:
        """Steer it; the id of the steer that was accepted, for another response perhaps."""
        await self.client.steer(self.id, value)
        seen = await self.client.until(
            "response.steer.accepted", "response.steer.failed", lane=self.lane
        )
        assert seen[-1]["type"] == "response.steer.accepted", seen[-1]
        told: str = seen[-1]["steer"]["id"]
        taken = {} if effective is None else {"effective_response_id": effective}
        assert seen[-1]["steer"] == {"id": told, "previous_response_id": self.id, **taken}
        return told

    async def refused(self, value: Any = "steer", **extra: Any) -> Event:
        """Steer it in vain; the error. The input comes back as it was."""
        await self.client.steer(self.id, value, **extra)
        event = (await self.client.until("response.steer.failed", lane=self.lane))[-1]
        assert event["steer"]["previous_response_id"] == self.id
        assert event["steer"]["input"] == value
        error: Event = event["error"]
        return error

    async def failed(self, *steers: str) -> list[Event]:
        """These accepted steers come back, in order."""
        events = [
            (await self.client.until("response.steer.failed", lane=self.lane))[-1] for _ in steers
        ]
        assert [event["steer"]["id"] for event in events] == list(steers)
        return events

    async def pending(self, *steers: str) -> list[Event]:
        """These accepted steers wait for the client, which is told once for each, in order."""
        events = [
            (await self.client.until("response.steer.pending", lane=self.lane))[-1] for _ in steers
        ]
        assert [event["steer"]["id"] for event in events] == list(steers)
        assert {event["reason"] for event in events} <= {"waiting_for_required_input"}
        required: list[Event] = events[0]["required_input"]
        assert all(event["required_input"] == required for event in events)
        return required

    async def ended(self, reason: str | None = None) -> Event:
        """Its terminal event came: completed, or incomplete for that reason."""
        response: Event = (await self.client.until(*TERMINALS, lane=self.lane))[-1]["response"]
        assert response["id"] == self.id
        details = None if reason is None else {"reason": reason}
        assert response["incomplete_details"] == details
        assert response["status"] == ("completed" if reason is None else "incomplete")
        return response

    async def finish(self, text: str = "ok") -> Event:
        """The upstream says one message and completes it."""
        await self.exchange.send(*opened(), delta(text), *closed(text))
        await self.exchange.send(completed(output=[message(text)]))
        await self.exchange.end()
        return await self.ended()

    async def follows(self) -> Running:
        """Its successor was asked for, begins by itself on the same lane, and streams."""
        exchange = await self.on.fake.next()
        await exchange.send(created("r2"), in_progress("r2"))
        seen = await self.client.until("response.created", lane=self.lane)
        response = seen[-1]["response"]
        assert response["previous_response_id"] == self.id
        return Running(self.on, self.client, self.lane, exchange, response["id"])


async def begin(
    on: Stand, lane: str | None = None, *chunks: bytes, client: Client | None = None, **extra: Any
) -> Running:
    """A create goes through, and its answer begins with these events."""
    client = client or on.client
    await client.create(lane, **extra)
    return await began(on, lane, *chunks, client=client)


async def began(
    on: Stand, lane: str | None = None, *chunks: bytes, client: Client | None = None
) -> Running:
    """The answer to a create that was sent before begins."""
    client = client or on.client
    exchange = await on.fake.next()
    await exchange.send(created(), in_progress(), *chunks)
    seen = await client.until("response.created", lane=lane)
    return Running(on, client, lane, exchange, seen[-1]["response"]["id"])


async def talking(on: Stand, lane: str | None = None, *texts: str, **extra: Any) -> Running:
    """A response in the middle of a message."""
    running = await begin(on, lane, *opened(), **extra)
    await running.says(*(texts or ("abc",)))
    return running


async def untouched(parent: Running) -> None:
    """It goes on, ends completed, and nothing follows it."""
    await parent.says("on")
    await parent.send(*closed("abcon"), completed(output=[message("abcon")]))
    response = await parent.ended()
    assert response["output"][0]["content"][0]["text"] == "abcon"
    before = len(parent.on.fake.exchanges)
    next_one, _ = await parent.on.turn(parent.lane, previous_response_id=parent.id)
    assert len(parent.on.fake.exchanges) == before + 1
    assert turns(next_one)[1:] == [("assistant", "abcon"), ("user", "hi")]


def text_of(item: Event) -> str:
    """The text of a message, whatever form it has."""
    content = item["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def turns(exchange: Exchange) -> list[tuple[str, str]]:
    """A request's input: each message as role and text, each other item as type and call."""
    return [
        (item["role"], text_of(item))
        if "role" in item
        else (item["type"], item.get("call_id") or item.get("approval_request_id") or "")
        for item in exchange.input
    ]


def typed(exchange: Exchange) -> None:
    """Nothing in the request's input leaves its type or its content's to be guessed."""
    for item in exchange.input:
        assert "type" in item, item


def reasoning(text: str, **extra: Any) -> list[bytes]:
    """Reasoning in the clear begins."""
    item = {"id": "rs1", "type": "reasoning", "summary": [], **extra}
    place = {"item_id": "rs1", "output_index": 0, "content_index": 0}
    added = event("response.output_item.added", output_index=0, item=item)
    return [added, event("response.reasoning_text.delta", **place, delta=text)]


@asynccontextmanager
async def steered(**settings: Any) -> AsyncIterator[Stand]:
    """A stand whose client has heard of every verdict when the block ends."""
    async with stand(**settings) as on:
        yield on
        assert on.client.judge is not None
        left = [one for one in on.client.judge.steers.steers.values() if one.fate == "accepted"]
        assert not left, left
