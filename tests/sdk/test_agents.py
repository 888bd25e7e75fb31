"""openai-agents over its own WebSocket model: a function tool loop, whole and streamed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from agents import Agent, RunConfig, Runner, function_tool
from agents.models.openai_responses import OpenAIResponsesWSModel
from openai import AsyncOpenAI

from tests.support.judge import StreamJudge
from tests.support.judged_sdk import MODEL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

_QUIET = RunConfig(tracing_disabled=True)


class _Judged(OpenAIResponsesWSModel):
    """Judges each frame as it comes off the socket."""

    judge = StreamJudge()
    opened = 0

    async def _open_websocket_connection(
        self, ws_url: str, headers: Mapping[str, str], *, connect_timeout: float | None
    ) -> Any:
        made = await super()._open_websocket_connection(
            ws_url, headers, connect_timeout=connect_timeout
        )
        receive, self.judge = made.recv, StreamJudge()
        self.opened += 1

        async def recv() -> str:
            frame: str = await receive()
            self.judge.receive(json.loads(frame))
            return frame

        made.recv = recv
        return made


@function_tool
def look(place: str) -> str:
    """Look at a place."""
    return f"It is sunny at {place}."


@pytest.fixture
async def model(gateway_url: str) -> AsyncIterator[_Judged]:
    async with AsyncOpenAI(base_url=gateway_url, api_key="none") as client:
        made = _Judged(MODEL, client)
        yield made
        made.judge.finish()
        await made.close()


@pytest.mark.parametrize("chained", [False, True])
async def test_a_tool_loop(model: _Judged, chained: bool) -> None:
    """With the whole history each time, or with `previous_response_id` and the new items only."""
    agent = Agent("guide", instructions="Be a guide.", tools=[look], model=model)
    result = await Runner.run(
        agent, "use the tool", run_config=_QUIET, auto_previous_response_id=chained
    )
    assert "It is sunny at" in result.final_output
    first, second = model.judge.responses.values()
    assert second.first["previous_response_id"] == (first.id if chained else None)
    assert model.opened == 1


async def test_a_streamed_run_continues_a_conversation(model: _Judged) -> None:
    agent = Agent("guide", model=model)
    first = await Runner.run(agent, "My name is Ana", run_config=_QUIET)
    second = Runner.run_streamed(
        agent, "Who am I?", previous_response_id=first.last_response_id, run_config=_QUIET
    )
    deltas = [
        event.data.delta
        async for event in second.stream_events()
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
    ]
    assert "".join(deltas) == second.final_output
    assert "My name is Ana" in second.final_output
