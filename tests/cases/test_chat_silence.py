"""A chat backend that has said why it finished, and never ends its body (B96)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from gateway.upstream.responses_stream import ResponsesStream
from tests.dialects.chatting import DONE, Chunk, body, call, chunk, counted, text
from tests.support.gateway_stand import Stand, stand
from tests.support.hang_guard import HANG

if TYPE_CHECKING:
    from collections.abc import Callable

COMMENT = b": OPENROUTER PROCESSING\n\n"
EMPTY = body([{**chunk(), "choices": []}], done=False)


async def unended(on: Stand, *chunks: Chunk | bytes, beat: bytes = b"", lane: str = "a") -> Chunk:
    """Answer a create with these chunks, and then go on with `beat` for as long as it is read."""
    exchange = await on.asked(lane)
    await exchange.send(body(chunks, done=False))

    async def beats() -> None:
        with suppress(OSError, ConnectionError):
            while beat and not exchange.closed.is_set():
                await exchange.send(beat)
                await asyncio.sleep(0.1)

    beating = asyncio.create_task(beats())
    try:
        async with asyncio.timeout(HANG):
            response: Chunk = await on.client.ended(lane)
    finally:
        beating.cancel()
        await asyncio.wait([beating])
    return response


@pytest.mark.parametrize("beat", [b"", COMMENT, EMPTY])
async def test_b96_silence_after_the_finish_reason_is_the_end(beat: bytes) -> None:
    async with stand(dialect="chat", retries=0, idle_timeout=HANG * 2) as on:
        response = await unended(on, *text("hi"), chunk("stop"), beat=beat)
        assert (response["status"], response["usage"]) == ("completed", None)
        assert response["output"][0]["content"][0]["text"] == "hi"
        response = await unended(on, call(0, "f", "{}", "c1"), chunk("tool_calls"), beat=beat)
        assert response["output"][0]["name"] == "f"


async def test_the_usage_may_come_within_the_grace() -> None:
    async with stand(dialect="chat", retries=0, idle_timeout=HANG * 2) as on:
        exchange = await on.asked("a")
        await exchange.send(body([*text("hi"), chunk("stop")], done=False))
        await on.client.until("response.output_text.delta", lane="a")
        await exchange.send(body([counted()], done=False))  # and the body never ends
        response = await on.client.ended("a")
        assert response["usage"]["total_tokens"] == 5


async def test_what_comes_within_the_grace_prolongs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    timers: list[asyncio.TimerHandle] = []
    await_end = ResponsesStream._await_end

    def noted(stream: ResponsesStream, finish: Callable[[], None]) -> None:
        await_end(stream, finish)
        assert stream._timer is not None
        timers.append(stream._timer)

    monkeypatch.setattr(ResponsesStream, "_await_end", noted)
    async with stand(dialect="chat", retries=0, idle_timeout=HANG * 2) as on:
        exchange = await on.asked("a")
        for one in (chunk("stop", content="1"), *text("2"), *text("3"), *text("4")):
            await exchange.send(body([one], done=False))
            await on.client.until("response.output_text.delta", lane="a")
        assert len(timers) == 4
        assert [timer.cancelled() for timer in timers] == [True, True, True, False]
        await exchange.send(body([counted()]) + DONE)
        response = await on.client.ended("a")
        assert response["output"][0]["content"][0]["text"] == "1234"
