"""The compliance suite of Open Responses (openresponses.org), test by test, under its names.

Its own package is on no registry.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import pytest

from tests.support.client import Client, connect
from tests.support.http_client import posted, requested

if TYPE_CHECKING:
    from tests.support.http_client import Event

#: A pixel.
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQ"
    "DwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the current weather for a location",
    "parameters": {
        "type": "object",
        "properties": {"location": {"type": "string"}},
        "required": ["location"],
    },
}


class InputDetails(msgspec.Struct):
    cached_tokens: int


class OutputDetails(msgspec.Struct):
    reasoning_tokens: int


class Usage(msgspec.Struct):
    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: InputDetails
    output_tokens_details: OutputDetails


class OutputText(msgspec.Struct, tag="output_text"):
    text: str
    annotations: list[dict[str, Any]]


class Message(msgspec.Struct, tag="message"):
    id: str
    status: Literal["in_progress", "completed", "incomplete"]
    role: Literal["assistant"]
    content: list[OutputText]
    phase: Literal["commentary", "final_answer"] | None = None


class FunctionCall(msgspec.Struct, tag="function_call"):
    id: str
    call_id: str
    name: str
    arguments: str
    status: Literal["in_progress", "completed", "incomplete"]


class Response(msgspec.Struct):
    """All that the specification requires of a response that is over."""

    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int
    status: Literal["completed"]
    incomplete_details: None
    model: str
    previous_response_id: str | None
    instructions: str | None
    output: list[Message | FunctionCall]
    error: None
    tools: list[dict[str, Any]]
    tool_choice: str
    truncation: Literal["auto", "disabled"]
    parallel_tool_calls: bool
    text: dict[str, Any]
    top_p: float
    presence_penalty: float
    frequency_penalty: float
    top_logprobs: int
    temperature: float
    reasoning: dict[str, Any] | None
    usage: Usage
    max_output_tokens: int | None
    max_tool_calls: int | None
    store: bool
    background: bool
    service_tier: str
    metadata: dict[str, str]
    safety_identifier: str | None
    prompt_cache_key: str | None


def fits(response: Any) -> Response:
    """Read a response as the specification has it."""
    read = msgspec.convert(response, Response)
    assert read.output
    return read


def message(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content, **more}


ALICE = [
    message("user", "My name is Alice."),
    message("assistant", "Hello Alice! Nice to meet you. How can I help you today?"),
    message("user", "What is my name?"),
]
PHASES = [
    message("assistant", "I should answer with the saved number.", phase="commentary"),
    message("assistant", "The number is four.", phase="final_answer"),
    message("user", "Repeat only the number."),
]
PIRATE = [
    message("system", "You are a pirate. Always respond in pirate speak."),
    message("user", "Say hello."),
]
SEEN = [
    {"type": "input_text", "text": "What do you see in this image? Answer in one sentence."},
    {"type": "input_image", "image_url": PIXEL},
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    "given",
    [
        pytest.param([message("user", "Say hello in exactly 3 words.")], id="basic-response"),
        pytest.param(PHASES, id="assistant-phase"),
        pytest.param([message("user", "Count from 1 to 5.")], id="streaming-response"),
        pytest.param(PIRATE, id="system-prompt"),
        pytest.param([message("user", SEEN)], id="image-input"),
        pytest.param(ALICE, id="multi-turn"),
    ],
)
async def test_a_message(gateway_url: str, given: list[Any], stream: bool) -> None:
    response = fits(await _created(gateway_url, input=given, stream=stream))
    assert isinstance(response.output[-1], Message)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_tool_calling(gateway_url: str, stream: bool) -> None:
    given = [message("user", "What's the weather like in San Francisco?")]
    response = fits(await _created(gateway_url, input=given, tools=[WEATHER], stream=stream))
    [call] = response.output
    assert isinstance(call, FunctionCall)
    assert call.name == "get_weather"
    assert json.loads(call.arguments)["location"]


async def _created(url: str, **asked: Any) -> Any:
    async with posted(url, {"model": "rehearse", **asked}) as answer:
        assert answer.status == 200
        if not asked["stream"]:
            return await answer.json()
        return (await answer.events())[-1]["response"]


def test_response_output_phase_schema() -> None:
    """A check of the schema alone, in the suite too."""
    part = {"type": "output_text", "text": "four", "annotations": []}
    for phase in ("commentary", "final_answer"):
        item = message("assistant", [part], phase=phase, id="msg_1", status="completed")
        assert msgspec.convert(item, Message).phase == phase
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**item, "phase": "other"}, Message)


async def _turn(client: Client, given: Any, **asked: Any) -> Response:
    await client.create(model="rehearse", store=False, input=given, **asked)
    return fits(await client.ended())


async def _not_found(client: Client, parent: str) -> Event:
    await client.create(model="rehearse", store=False, input="Go on.", previous_response_id=parent)
    error: Event = (await client.error())["error"]
    assert error["code"] == "previous_response_not_found"
    return error


async def test_websocket_response(gateway_url: str) -> None:
    async with connect(gateway_url) as client:
        await _turn(client, [message("user", "Count from 1 to 3.")])


async def test_websocket_sequential_responses(gateway_url: str) -> None:
    async with connect(gateway_url) as client:
        first = await _turn(client, "Reply with exactly: first")
        second = await _turn(client, "Reply with exactly: second")
    assert first.id != second.id


async def test_websocket_continuation(gateway_url: str) -> None:
    async with connect(gateway_url) as client:
        first = await _turn(client, "Remember the code word: cobalt. Reply with OK.")
        second = await _turn(client, "What is the code word?", previous_response_id=first.id)
    [said] = second.output
    assert isinstance(said, Message)
    assert "cobalt" in said.content[0].text


async def test_websocket_reconnect_store_false_recovery(gateway_url: str) -> None:
    async with connect(gateway_url) as client:
        first = await _turn(client, "Remember the code word: copper. Reply with OK.")
    async with connect(gateway_url) as client:
        await _not_found(client, first.id)
        await _turn(client, [message("user", "Start a new response.")])


async def test_websocket_previous_response_not_found(gateway_url: str) -> None:
    async with connect(gateway_url) as client:
        await _not_found(client, "resp_openresponses_missing_1")


async def test_websocket_failed_continuation_evicts_cache(gateway_url: str) -> None:
    async with connect(gateway_url) as client:
        first = await _turn(client, "Remember the code word: ember. Reply with OK.")
        output = {"type": "function_call_output", "call_id": "call_missing", "output": "none"}
        await client.create(
            model="rehearse", store=False, previous_response_id=first.id, input=[output]
        )
        assert (await client.error())["status"] == 400
        await _not_found(client, first.id)


async def _compacted(url: str, **fields: Any) -> tuple[int, Any]:
    lines = {"content-type": "application/json"}
    body = json.dumps(fields).encode()
    async with requested(url, "POST", "/responses/compact", body, lines) as answer:
        return answer.status, await answer.json()


async def test_compact_response(gateway_url: str) -> None:
    status, compacted = await _compacted(gateway_url, model="rehearse", input=ALICE)
    assert status == 200
    assert compacted["object"] == "response.compaction"
    [item] = [item for item in compacted["output"] if item["type"] == "compaction"]
    assert item["encrypted_content"]
    assert msgspec.convert(compacted["usage"], Usage).total_tokens > 0


async def test_compact_missing_model(gateway_url: str) -> None:
    status, body = await _compacted(gateway_url, input=ALICE)
    assert status == 400
    assert body["error"]["param"] == "model"


async def test_websocket_compact_new_chain(gateway_url: str) -> None:
    _, compacted = await _compacted(gateway_url, model="rehearse", input=ALICE)
    async with connect(gateway_url) as client:
        given = [*compacted["output"], message("user", "What is my name?")]
        [said] = (await _turn(client, given)).output
    assert isinstance(said, Message)
    assert "Alice" in said.content[0].text
