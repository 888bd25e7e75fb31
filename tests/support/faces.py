"""One request over a socket, over HTTP in each form, and in the background: what each is told.

async with faces() as both:
    both.answer = tuple(reply("hi"))
    await both.agree({"model": "m", "input": "hi"})
"""

from __future__ import annotations

import json
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from tests.support.conversations import begin
from tests.support.gateway_stand import Stand, stand
from tests.support.http_client import posted, requested

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from tests.support.client import Event
    from tests.support.exchange import Exchange

ID = re.compile(r"\b(resp|[a-z]{2,8})_[0-9a-f]{32}\b")
#: The headers of a refusal; over a socket they are in the error.
_SHOWN = re.compile(r"retry-after(-ms)?|x-request-id|x-ratelimit-.*")
ENDS = ("response.completed", "response.incomplete", "response.failed", "error")


@dataclass
class Faces:
    """All faces of one gateway. `play` is what the backend does with any request."""

    on: Stand
    parent: str = ""
    play: Callable[[Exchange], Awaitable[None]] | None = None
    keys: Iterator[int] = field(default_factory=count)

    def answers(self, *chunks: bytes) -> None:
        """Let the backend say just this to any request."""

        async def say(exchange: Exchange) -> None:
            await exchange.send(*chunks)
            await exchange.end()

        self.play = say

    async def agree(self, create: Event) -> list[Event]:
        """Ask at every face, and check that all say the same; return the events."""
        events, asked = await self.socket(await self.meant(create))
        over_http, asked_over_http = await self.http(await self.meant(create))
        assert plain(over_http) == plain(events)
        assert asked_over_http == asked
        status, said = await self.whole(await self.meant(create))
        last = events[-1]
        if last["type"] == "error":
            error = {k: v for k, v in last["error"].items() if k != "headers"}
            assert (status, said) == (last["status"], {"error": error})
            return events
        assert status == 200
        assert plain([said]) == plain([last["response"]])
        return events

    async def agree_later(self, create: Event, events: list[Event]) -> None:
        """Check the faces that go on without a client: in the background, and with a key."""
        key = {"idempotency-key": str(next(self.keys))}
        first, _ = await self.http(await self.meant(create), key)
        assert plain(first) == plain(events)
        if events[-1]["type"] == "error":
            return
        again, asked = await self.http(await self.meant(create), key)
        if create.get("conversation") != "{new}":  # which is another one the next time
            assert again[-1]["response"] == first[-1]["response"]
            assert asked == {"asked": []}
        if create.get("store") is not False:
            later, _ = await self.http({**await self.meant(create), "background": True})
            assert plain(_in_front(later)) == plain(_in_front(events))
            name = later[-1]["response"]["id"]
            async with requested(
                self.on.url, "GET", f"/responses/{name}?stream=true", judged=False
            ) as answer:
                assert await answer.events() == later

    async def socket(self, create: Event) -> tuple[list[Event], Event]:
        """The events over a socket as they came, and what the backend was asked."""
        await self.on.client.send({"type": "response.create", "stream_id": "a", **create})
        events = await self.on.client.until(*ENDS, lane="a")
        for event in events:
            assert event.pop("stream_id") == "a"
        return events, self.asked()

    async def http(
        self, create: Event, headers: dict[str, str] | None = None
    ) -> tuple[list[Event], Event]:
        """The same over HTTP; an error as the event that it would be."""
        body = _body(create, stream=True)
        async with posted(self.on.url, body, headers, judged=False) as answer:
            if answer.status == 200:
                assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
                return await answer.events(), self.asked()
            error = (await answer.json())["error"]
            headers = {k: v for k, v in answer.headers.items() if _SHOWN.fullmatch(k)}
            error |= {"headers": headers} if headers else {}
            event = {"type": "error", "status": answer.status, "error": error}
            return [event], self.asked()

    async def whole(self, create: Event) -> tuple[int, Event]:
        """The status and the object of a request that asks for no stream."""
        async with posted(self.on.url, _body(create, stream=False), judged=False) as answer:
            said = await answer.json()
            self.asked()
            return answer.status, said

    async def meant(self, create: Event) -> Event:
        """The create with a parent, or with a conversation of its own, in place of their marks."""
        meant = {}
        if create.get("previous_response_id") == "{parent}":
            meant["previous_response_id"] = self.parent
        if create.get("conversation") == "{new}":
            meant["conversation"] = await begin(self.on, {"role": "user", "content": "before"})
        return {**create, **meant}

    def asked(self) -> Event:
        """What the backend was asked since the last time."""
        asked = [exchange.body for exchange in self.on.fake.exchanges]
        self.on.fake.exchanges.clear()
        return {"asked": asked}


def _body(create: Event, *, stream: bool) -> bytes:
    return json.dumps({**create, "stream": stream}).encode()


def plain(events: list[Event]) -> list[Event]:
    """The events with ids in the order in which they appear, and without times."""
    ids: dict[str, str] = {}

    def ordinal(found: re.Match[str]) -> str:
        return ids.setdefault(found[0], f"{found[1]}#{len(ids)}")

    text = ID.sub(ordinal, json.dumps(events))
    text = re.sub(r'"(created_at|completed_at)": \d+', r'"\1": 0', text)
    plain: list[Event] = json.loads(text)
    return plain


def _in_front(events: list[Event]) -> list[Event]:
    """The events as they are the same in the background and in front.

    In the background a response begins before its backend has said anything of it.
    """
    kept = [dict(one) for one in events if one["type"] != "response.queued"]
    for number, event in enumerate(kept):
        event["sequence_number"] = number
        if event["type"] in ("response.created", "response.in_progress"):
            event["response"] = event["response"]["id"]
        elif "response" in event:
            event["response"] = {**event["response"], "background": False, "store": True}
    return kept


@asynccontextmanager
async def faces(**settings: Any) -> AsyncIterator[Faces]:
    """A gateway that is asked at all its faces."""

    async def play(exchange: Exchange) -> None:
        assert made.play is not None
        await made.play(exchange)

    async with stand(play, **{"retries": 0, **settings}) as on:
        on.client.judge = None
        made = Faces(on)
        await on.client.create("parent", generate=False, store=True, input="before")
        made.parent = (await on.client.ended("parent"))["id"]
        yield made
