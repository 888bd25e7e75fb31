"""The real small model behind the gateway again, asked by Chat Completions this time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gateway.config.settings import Settings
from gateway.process.llama import MODEL
from tests.support.client import connect
from tests.support.gateway import running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.client import Client, Event

pytestmark = pytest.mark.real

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}},
        "required": ["city"],
    },
}

SCRIPT = {"input": "ls"}


@pytest.fixture
async def chat(llama_url: str) -> AsyncIterator[Client]:
    settings = Settings(upstream=llama_url, dialect="chat", model=MODEL)
    async with running(settings) as url, connect(url) as client:
        yield client


async def _turn(client: Client, **extra: Any) -> Event:
    await client.create("a", model=MODEL, **{"temperature": 0, "max_output_tokens": 24, **extra})
    return await client.ended("a")


def _said(response: Event) -> str:
    return "".join(
        part["text"]
        for item in response["output"]
        if item["type"] == "message"
        for part in item["content"]
    )


async def test_text(chat: Client) -> None:
    response = await _turn(chat, input="Say hello.", instructions="Be brief.")
    deltas = [
        event["delta"] for event in chat.transcript if event["type"].endswith("output_text.delta")
    ]
    assert len(deltas) > 2
    assert _said(response) == "".join(deltas)
    assert response["usage"]["input_tokens"] > 0
    assert response["model"] == MODEL


async def test_a_limit_makes_it_incomplete(chat: Client) -> None:
    response = await _turn(chat, input="Tell me a long story.", max_output_tokens=8)
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["usage"]["output_tokens"] == 8


async def test_a_continuation_carries_what_was_said(chat: Client) -> None:
    first = await _turn(chat, input="My name is Ana. Say hello.")
    second = await _turn(chat, input="What is my name?", previous_response_id=first["id"])
    # This model cannot be trusted to know the name, but the backend counts what it was given.
    assert second["usage"]["input_tokens"] > first["usage"]["total_tokens"]
    third = await _turn(chat, previous_response_id=second["id"], input=[])
    assert third["status"] in ("completed", "incomplete")


async def test_a_steer_in_mid_sentence_is_taken_up(chat: Client) -> None:
    await chat.create("a", model=MODEL, temperature=0, input="Tell a story.", max_output_tokens=200)
    await chat.until("response.output_text.delta")
    first = chat.transcript[0]["response"]["id"]
    await chat.steer(first, "Count to 3.")
    cut = await chat.ended("a")
    assert cut["incomplete_details"] == {"reason": "steered"}
    following = await chat.ended("a")
    assert following["previous_response_id"] == first
    assert following["status"] in ("completed", "incomplete")
    assert following["usage"]["input_tokens"] > 30


@pytest.mark.parametrize("kind", ["function", "custom"])
async def test_a_call_and_the_turn_after_its_output(tooled_url: str, kind: str) -> None:
    """The model is too small to think of a call by itself: it goes on as it was shown."""
    name, told = ("get_weather", {"city": "Paris"}) if kind == "function" else ("sh", SCRIPT)
    wanted = json.dumps({"name": name, "arguments": told})
    shown = f"<tool_call>\n{wanted}\n</tool_call>"
    roles = ("user", "assistant", "user", "assistant", "user")
    say = [{"role": role, "content": "Now" if role == "user" else shown} for role in roles]
    tools = [WEATHER if kind == "function" else {"type": "custom", "name": "sh"}]
    asked = {"tools": tools, "tool_choice": "required", "max_output_tokens": 80}
    settings = Settings(upstream=tooled_url, dialect="chat", model=MODEL)
    async with running(settings) as url, connect(url) as client:
        first = await _turn(client, input=say, **asked)
        called = first["output"][-1]
        if kind == "function":
            assert (called["name"], json.loads(called["arguments"])) == (name, told)
        else:
            assert (called["type"], called["input"]) == ("custom_tool_call", SCRIPT["input"])
        given = {
            "type": f"{called['type']}_output",
            "call_id": called["call_id"],
            "output": "18 C",
        }
        after = await _turn(client, previous_response_id=first["id"], input=[given], tools=tools)
        assert after["status"] in ("completed", "incomplete")
        assert after["usage"]["input_tokens"] > first["usage"]["total_tokens"]


async def test_a_form_is_kept(chat: Client) -> None:
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "string", "enum": ["yes", "no"]}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}
    response = await _turn(
        chat, input="Is the sky blue?", text={"format": form}, max_output_tokens=100
    )
    assert json.loads(_said(response))["answer"] in ("yes", "no")


async def test_a_refusal_is_an_error_and_the_lane_lives_on(chat: Client) -> None:
    await chat.create("a", model=MODEL, input="word " * 3000)
    error = await chat.error("a")
    assert error["error"]["code"] == "context_length_exceeded"
    assert (await _turn(chat, input="hi"))["status"] in ("completed", "incomplete")
