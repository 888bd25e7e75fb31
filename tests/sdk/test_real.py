"""A real small model behind the gateway: llama.cpp's own server.

No strict client takes its stream as it is. Answers are short; what they say does not matter.
"""

from __future__ import annotations

import http.client
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import pytest
from anyio import to_thread
from openai import AsyncOpenAI

from tests.support.client import connect
from tests.support.hang_guard import HANG
from tests.support.judged_sdk import Lanes, judged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from openai.resources.responses.responses import AsyncResponsesConnection

pytestmark = pytest.mark.real


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[tuple[AsyncResponsesConnection, Lanes]]:
    async with (
        AsyncOpenAI(base_url=url, api_key="none") as client,
        client.responses.connect() as connection,
    ):
        judge = judged(connection)
        yield connection, Lanes()
        judge.finish()


async def _busy(llama_url: str) -> int:
    """How many slots of the backend generate at this moment."""

    def ask() -> int:
        asked = http.client.HTTPConnection(urlsplit(llama_url).netloc, timeout=HANG)
        try:
            asked.request("GET", "/slots")
            return sum(slot["is_processing"] for slot in json.load(asked.getresponse()))
        finally:
            asked.close()

    return await to_thread.run_sync(ask)


async def test_the_sdk_accumulates_a_whole_answer(real_url: str) -> None:
    async with _connected(real_url) as (connection, lanes):
        await connection.response.create(input="Say hello.", temperature=0, store=False)
        [response] = await lanes.follow(aiter(connection), None)
        assert response.status == "completed"
        assert response.output_text == lanes[None].deltas != ""
        assert response.usage is not None
        assert response.usage.output_tokens > 0


async def test_a_limit_makes_it_incomplete(real_url: str) -> None:
    async with _connected(real_url) as (connection, lanes):
        await connection.response.create(
            input="Tell me a long story about a dragon.", temperature=0, max_output_tokens=16
        )
        [response] = await lanes.follow(aiter(connection), None)
        assert response.status == "incomplete"
        assert response.incomplete_details is not None
        assert response.incomplete_details.reason == "max_output_tokens"


async def test_two_lanes_stream_at_once(real_url: str) -> None:
    async with _connected(real_url) as (connection, lanes):
        for lane in ("a", "b"):
            await connection.response.create(
                stream_id=lane, input=f"Tell me a story about {lane}.", max_output_tokens=24
            )
        await lanes.follow(aiter(connection), "a", "b")
        order = "".join(lane or "-" for lane in lanes.order)
        switches = order.count("ab") + order.count("ba")
        assert switches > 10, order


async def test_a_client_that_leaves_frees_the_backend(real_url: str, llama_url: str) -> None:
    async with connect(real_url) as client:
        for lane in ("a", "b"):
            await client.create(
                lane, input="Tell me a very long story.", temperature=0, max_output_tokens=900
            )
        for lane in ("a", "b"):
            await client.until("response.output_text.delta", lane=lane)
        assert await _busy(llama_url) == 2
        client.abort()
    with anyio.fail_after(HANG):
        while await _busy(llama_url):  # noqa: ASYNC110 - another process, it has to be asked
            await anyio.sleep(0.02)


async def test_a_refusal_is_an_error_and_the_lane_lives_on(real_url: str) -> None:
    async with connect(real_url) as client:
        await client.create("a", model="smollm2-135m", input="word " * 3000)
        error = await client.error("a")
        assert error["status"] == 400
        assert error["error"]["code"] == "context_length_exceeded"
        await client.create("a", model="smollm2-135m", max_output_tokens=16)
        assert (await client.ended("a"))["status"] in ("completed", "incomplete")


async def test_a_continuation_carries_what_was_said(real_url: str) -> None:
    async with _connected(real_url) as (connection, lanes):
        events = aiter(connection)
        create = connection.response.create
        await create(input="My name is Ana. Say hello.", temperature=0, max_output_tokens=24)
        [first] = await lanes.follow(events, None)
        await create(
            input="What is my name?",
            previous_response_id=first.id,
            temperature=0,
            max_output_tokens=24,
        )
        [second] = await lanes.follow(events, None)
        assert second.previous_response_id == first.id
        assert first.usage is not None
        assert second.usage is not None
        # This model cannot be trusted to know the name, but the backend counts what it was given.
        assert second.usage.input_tokens > first.usage.total_tokens


async def test_a_steer_in_mid_sentence_is_taken_up(real_url: str) -> None:
    async with connect(real_url) as client:
        model = {"model": "smollm2-135m", "temperature": 0}
        await client.create("a", input="Tell me a long story.", max_output_tokens=200, **model)
        await client.until("response.output_text.delta")
        first = client.transcript[0]["response"]["id"]
        steer = {"type": "response.steer", "previous_response_id": first, "input": "Count to 3."}
        await client.send(steer)
        cut = await client.ended("a")
        assert cut["incomplete_details"] == {"reason": "steered"}
        following = await client.ended("a")
        assert following["previous_response_id"] == first
        assert following["status"] in ("completed", "incomplete")
        # The backend counts what it was given: the story's beginning and the steer are part of it.
        assert following["usage"]["input_tokens"] > 30
