"""The official Python SDK, asynchronous: `client.responses.connect()` and lanes on one socket."""

from __future__ import annotations

import json
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from openai import AsyncOpenAI

from tests.support.judged_sdk import MODEL, Lanes, judged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from openai.resources.responses.responses import AsyncResponsesConnection

LOOK: Any = {
    "type": "function",
    "name": "look",
    "description": "Look at a place.",
    "parameters": {
        "type": "object",
        "properties": {"place": {"type": "string"}},
        "required": ["place"],
        "additionalProperties": False,
    },
    "strict": True,
}


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[tuple[AsyncResponsesConnection, Lanes]]:
    async with (
        AsyncOpenAI(base_url=url, api_key="none") as client,
        client.responses.connect() as connection,
    ):
        judge = judged(connection)
        yield connection, Lanes()
        judge.finish()


async def test_a_planner_forks_into_research_and_critic_and_joins(gateway_url: str) -> None:
    async with _connected(gateway_url) as (connection, lanes):
        events = aiter(connection)
        create = connection.response.create
        await create(model=MODEL, stream_id="planner", input="Plan the launch", store=False)
        [plan] = await lanes.follow(events, "planner")
        for lane, text in (("research", "Research markets"), ("critic", "Find weaknesses")):
            await create(
                model=MODEL, stream_id=lane, input=text, previous_response_id=plan.id, store=False
            )
        research, critic = await lanes.follow(events, "research", "critic")

        assert research.previous_response_id == critic.previous_response_id == plan.id
        assert "Plan the launch" in research.output_text
        assert "Find weaknesses" not in research.output_text
        assert "Research markets" not in critic.output_text
        wire = "".join(
            "r" if lane == "research" else "c" for lane in lanes.order if lane != "planner"
        )
        assert re.search("rc+r|cr+c", wire), f"the forks did not run at once: {wire}"

        found = f"Research: {research.output_text}\nCritic: {critic.output_text}"
        await create(
            model=MODEL,
            stream_id="planner",
            previous_response_id=plan.id,
            input=[{"role": "user", "content": found}, {"role": "user", "content": "Join them"}],
            store=False,
        )
        [joined] = await lanes.follow(events, "planner")
        assert "Plan the launch" in joined.output_text
        assert "Join them" in joined.output_text


async def test_the_default_lane_has_no_name(gateway_url: str) -> None:
    async with _connected(gateway_url) as (connection, lanes):
        events = aiter(connection)
        await connection.response.create(model=MODEL, input="My name is Ana")
        [first] = await lanes.follow(events, None)
        await connection.response.create(
            model=MODEL, input="Who am I?", previous_response_id=first.id
        )
        [second] = await lanes.follow(events, None)
        assert "My name is Ana" in second.output_text
        assert lanes[None].deltas == second.output_text
        assert set(lanes.order) == {None}


async def test_a_warm_up_is_a_parent_without_output(gateway_url: str) -> None:
    async with _connected(gateway_url) as (connection, lanes):
        events = aiter(connection)
        create = connection.response.create
        await create(
            model=MODEL, stream_id="a", input="Remember the harbour", generate=False, store=False
        )
        [warm] = await lanes.follow(events, "a")
        assert (warm.status, warm.output) == ("completed", [])
        for lane in ("b", "c"):
            await create(
                model=MODEL, stream_id=lane, input=f"go {lane}", previous_response_id=warm.id
            )
        for response in await lanes.follow(events, "b", "c"):
            assert "Remember the harbour" in response.output_text


@pytest.mark.parametrize("lane", ["t", None])
async def test_a_tool_loop(gateway_url: str, lane: str | None) -> None:
    where: dict[str, Any] = {} if lane is None else {"stream_id": lane}
    async with _connected(gateway_url) as (connection, lanes):
        events = aiter(connection)
        create = connection.response.create
        await create(model=MODEL, input="use the tool", tools=[LOOK], store=False, **where)
        [asked] = await lanes.follow(events, lane)
        [call] = [item for item in asked.output if item.type == "function_call"]
        assert call.name == "look"
        assert set(json.loads(call.arguments)) == {"place"}
        await create(
            model=MODEL,
            previous_response_id=asked.id,
            input=[{"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}],
            tools=[LOOK],
            store=False,
            **where,
        )
        [answer] = await lanes.follow(events, lane)
        assert "sunny" in answer.output_text


async def test_reasoning_comes_first(gateway_url: str) -> None:
    async with _connected(gateway_url) as (connection, lanes):
        await connection.response.create(
            model=MODEL, input="Think", reasoning={"effort": "low", "summary": "auto"}, store=False
        )
        [response] = await lanes.follow(aiter(connection), None)
        assert [item.type for item in response.output] == ["reasoning", "message"]


async def test_an_error_names_its_lane_and_the_lane_lives_on(gateway_url: str) -> None:
    async with _connected(gateway_url) as (connection, lanes):
        create = connection.response.create
        await create(model=MODEL, stream_id="a", input="hi", previous_response_id="resp_gone")
        event = await connection.recv()
        assert event.type == "error"
        assert (event.status, event.stream_id) == (400, "a")
        assert event.error.code == "previous_response_not_found"
        await create(model=MODEL, stream_id="a", input="hi again", store=False)
        [response] = await lanes.follow(aiter(connection), "a")
        assert "hi again" in response.output_text


async def test_events_can_be_dispatched_to_handlers(gateway_url: str) -> None:
    seen: list[str] = []
    async with AsyncOpenAI(base_url=gateway_url, api_key="none") as client:
        manager = client.responses.connect()
        manager.on("response.output_text.delta", lambda event: seen.append(event.delta))
        manager.send({"type": "response.create", "model": MODEL, "input": "hi", "stream_id": "a"})
        async with manager as connection:
            judge = judged(connection)

            async def leave(event: Any) -> None:
                seen.append(event.response.output_text)
                await connection.close()

            connection.on("response.completed", leave)
            await connection.dispatch_events()
            judge.finish()
    assert "".join(seen[:-1]) == seen[-1]
