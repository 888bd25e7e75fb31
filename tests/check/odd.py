"""Scripted backends: a good one, and whatever a test makes of it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from gateway.config.upstream_settings import UpstreamSettings
from gateway.tools.check.examination import examine
from tests.support.events import (
    call_reply,
    closed,
    completed,
    created,
    data,
    delta,
    in_progress,
    incomplete,
    message,
    opened,
    reply,
)
from tests.support.upstream import upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from gateway.tools.check.findings import CheckReport, Finding
    from tests.support.exchange import Exchange

#: Seconds a word of a long answer.
PACE = 0.01
WORDS = 60


@dataclass
class Good:
    """Does all that a check asks for. `turns`: it makes one answer at a time."""

    owner: str = "vllm"
    models: tuple[str, ...] = ("m1",)
    turns: bool = False
    #: Whether it makes an answer to its end when nobody reads it any more.
    stubborn: bool = False
    #: Looked at first; an answer is a refusal: status and body.
    refuse: Callable[[dict[str, Any]], tuple[int, Any] | None] = lambda _: None
    #: Sends what a stream is, in place of the usual.
    answer: Callable[[Exchange], Awaitable[bool]] | None = None
    places: tuple[str, ...] = ("/responses",)
    asked: list[dict[str, Any]] = field(default_factory=list)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __call__(self, exchange: Exchange) -> None:
        place = exchange.path.removeprefix("/v1")
        if place == "/models":
            data = [{"id": name, "owned_by": self.owner} for name in self.models]
            await exchange.reply(200, {"object": "list", "data": data})
            return
        if place not in self.places:
            await exchange.reply(404, {"detail": "Not Found"})
            return
        body = exchange.body
        self.asked.append(body)
        refused = _usual(body) or self.refuse(body)
        if refused is not None:
            await exchange.reply(*refused)
        elif self.turns:
            async with self._turn:
                await self._stream(exchange)
        else:
            await self._stream(exchange)

    async def _stream(self, exchange: Exchange) -> None:
        if self.answer is not None and await self.answer(exchange):
            return
        body = exchange.body
        if "tools" in body and exchange.input[-1].get("type") != "function_call_output":
            name = body["tools"][0]["name"]
            await exchange.send(*call_reply(name, '{"city": "Paris"}'))
        elif "long story" in said(body):
            await self._long(exchange, body["max_output_tokens"])
        else:
            await exchange.send(*reply("one ", "two ", "three"))
        await exchange.end()

    async def _long(self, exchange: Exchange, limit: int) -> None:
        words = [f"word{n} " for n in range(min(limit, WORDS))]
        text = "".join(words)
        end = completed(output=[message(text)])
        if limit < WORDS:
            end = incomplete(output=[message(text)])
        try:
            await exchange.send(created(), in_progress(), *opened())
            for word in words:
                await exchange.send(delta(word))
                await anyio.sleep(PACE)
            await exchange.send(*closed(text), end)
        except ConnectionError:
            if self.stubborn:
                await anyio.sleep(PACE * WORDS)
            raise


class Chatty(Good):
    """The same where there is nothing but `/chat/completions`."""

    async def __call__(self, exchange: Exchange) -> None:
        place = exchange.path.removeprefix("/v1")
        if place != "/chat/completions":
            await super().__call__(exchange)
            return
        body = exchange.body
        self.asked.append(body)
        if not isinstance(body.get("messages"), list):
            await exchange.reply(422, {"detail": "messages: must be a list"})
        elif "tools" in body and body["messages"][-1]["role"] != "tool":
            name = body["tools"][0]["function"]["name"]
            function = {"name": name, "arguments": '{"city": "Paris"}'}
            call = {"index": 0, "id": "c1", "type": "function", "function": function}
            await _chunks(exchange, [{"tool_calls": [call]}], "tool_calls")
        elif "long story" in str(body["messages"][-1]):
            room = min(WORDS, body["max_tokens"])
            words = [{"content": f"word{n} "} for n in range(room)]
            await _chunks(exchange, words, "length" if room < WORDS else "stop")
        else:
            await _chunks(exchange, [{"content": word} for word in ("one ", "two")], "stop")


async def _chunks(exchange: Exchange, deltas: list[dict[str, Any]], reason: str) -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": len(deltas), "total_tokens": 9}
    for content in deltas:
        await exchange.send(data({"choices": [{"index": 0, "delta": content}]}))
        await anyio.sleep(PACE)
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}
    await exchange.send(data(last), data("[DONE]"))
    await exchange.end()


def said(body: dict[str, Any]) -> str:
    """The last text of the input."""
    given = body["input"]
    content = given if isinstance(given, str) else given[-1].get("content", "")
    return content if isinstance(content, str) else str(content[0].get("text", ""))


def _usual(body: dict[str, Any]) -> tuple[int, Any] | None:
    """What a good backend refuses."""
    if not isinstance(body.get("input"), str | list):
        return 400, {"error": {"message": "input: must be text or a list", "code": "invalid_type"}}
    if body.get("previous_response_id"):
        return 404, {"error": {"message": "Response with id 'resp_0' not found."}}
    return None


@asynccontextmanager
async def served(backend: Good) -> AsyncIterator[str]:
    async with upstream(backend) as fake:
        yield fake.url


async def checked(backend: Good, *, timeout: float = 5, **settings: Any) -> CheckReport:
    """The report on a backend; its stream is the fakes' usual one."""
    async with served(backend) as url:
        wanted = UpstreamSettings(**{"name": "checked", "url": url, "retries": 0, **settings})
        return await examine(wanted, timeout, lambda _: None)


def row(report: CheckReport, name: str) -> Finding:
    [found] = [one for one in report.findings if one.name == name]
    return found


def rows(report: CheckReport) -> dict[str, str]:
    """Each check's verdict."""
    return {one.name: str(one.verdict) for one in report.findings}
