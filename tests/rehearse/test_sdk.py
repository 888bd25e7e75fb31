"""The official SDK's own helper as the judge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
import pytest
from pydantic import BaseModel

from tests.support.rehearsal import WEATHER, Rehearsal

if TYPE_CHECKING:
    from collections.abc import Iterator


class Answer(BaseModel):
    city: str
    days: int


@pytest.fixture
def sdk(stand: Rehearsal) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=stand.url, api_key="any", max_retries=0) as client:
        yield client


@pytest.mark.parametrize(
    "more",
    [
        {"input": "Tell me about queues"},
        {"input": "use the tool twice", "tools": [WEATHER]},
        {"input": "use the tool", "tools": [{"type": "custom", "name": "run"}]},
        {"input": "think", "reasoning": {"effort": "high", "summary": "auto"}},
        {"input": "use the tool", "tools": [WEATHER], "reasoning": {"effort": "low"}},
        {"input": "refuse"},
    ],
    ids=str,
)
def test_the_stream_helper_accumulates_the_same(sdk: openai.OpenAI, more: dict[str, Any]) -> None:
    with sdk.responses.stream(model="rehearse", **more) as stream:
        text = "".join(
            event.delta for event in stream if event.type == "response.output_text.delta"
        )
        final = stream.get_final_response()
    assert final.status == "completed"
    assert final.output_text == text


def test_structured_output_is_parsed(sdk: openai.OpenAI) -> None:
    parsed = sdk.responses.parse(model="rehearse", input="Lisbon", text_format=Answer)
    assert parsed.output_parsed == Answer(city="Lisbon", days=2)


def test_a_tool_loop_goes_round(sdk: openai.OpenAI) -> None:
    conversation: list[Any] = [{"role": "user", "content": "use the tool for Lisbon"}]
    tools: Any = [WEATHER]
    effort: Any = {"effort": "low"}
    first = sdk.responses.create(
        model="rehearse",
        input=conversation,
        tools=tools,
        reasoning=effort,
        include=["reasoning.encrypted_content"],
    )
    conversation += [item.to_dict() for item in first.output]
    [call] = [item for item in first.output if item.type == "function_call"]
    conversation.append(
        {"type": "function_call_output", "call_id": call.call_id, "output": "21 degrees"}
    )
    second = sdk.responses.create(model="rehearse", input=conversation, tools=tools)
    assert second.output_text.startswith('The tool answered "21 degrees".')


def test_errors_arrive_as_the_sdk_knows_them(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.RateLimitError):
        sdk.responses.create(model="rehearse", input="fail 429")
    with pytest.raises(openai.InternalServerError):
        sdk.responses.create(model="rehearse", input="fail before")
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.responses.create(model="rehearse", input="x", previous_response_id="resp_1")
    assert caught.value.code == "previous_response_not_found"
