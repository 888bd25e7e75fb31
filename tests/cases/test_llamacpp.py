"""The llamacpp dialect end to end, on what llama.cpp's own server really sent."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.gateway_stand import Stand, stand, user
from tests.tapes import events, names, tape

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.exchange import Exchange


@asynccontextmanager
async def llama() -> AsyncIterator[Stand]:
    async with stand(dialect="llamacpp", retries=0) as on:
        yield on


async def _play(on: Stand, name: str, size: int = 0, /, **extra: Any) -> tuple[Exchange, Any]:
    body = tape(name)
    size = size or len(body)
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    return await on.turn("a", chunks, **extra)


def _text(name: str) -> str:
    deltas = [e["delta"] for e in events(name) if e["type"] == "response.output_text.delta"]
    return "".join(deltas)


@pytest.mark.parametrize("size", [0, 7, 1000])
async def test_text(size: int) -> None:
    name = "llamacpp_plain.sse"
    async with llama() as on:
        _, response = await _play(on, name, size, input="hi")
        assert response["status"] == "completed"
        (item,) = response["output"]
        assert item["content"][0]["text"] == _text(name)
        assert response["usage"]["output_tokens"] > 0
        assert not [key for key in response if key.startswith("__") or key == "timings"]


@pytest.mark.parametrize("name", names("llamacpp_*.sse"))
async def test_every_tape_is_a_strict_stream_and_a_parent(name: str) -> None:
    async with llama() as on:
        _, response = await _play(on, name)
        assert response["status"] in ("completed", "incomplete")
        given = [
            {"type": "function_call_output", "call_id": item["call_id"], "output": "ok"}
            for item in response["output"]
            if item["type"] == "function_call" and item["status"] == "completed"
        ]
        exchange, after = await _play(
            on, "llamacpp_plain.sse", previous_response_id=response["id"], input=[user("x"), *given]
        )
        assert after["status"] == "completed"
        allowed = {"message", "reasoning", "function_call", "function_call_output"}
        assert {item["type"] for item in exchange.input} <= allowed
        assert all("id" not in item and "status" not in item for item in exchange.input)


async def test_tools_and_the_turn_after_them() -> None:
    async with llama() as on:
        tools = [{"type": "function", "name": "get_weather", "parameters": {"type": "object"}}]
        first, response = await _play(on, "llamacpp_tools_required.sse", tools=tools)
        assert first.body["tools"] == tools
        call = response["output"][-1]
        sent = next(
            event["item"]
            for event in events("llamacpp_tools_required.sse")
            if event["type"] == "response.output_item.done"
        )
        assert (call["call_id"], call["name"]) == (sent["call_id"], sent["name"])
        assert call["arguments"] == sent["arguments"]
        given = {"type": "function_call_output", "call_id": call["call_id"], "output": "18 C"}
        second, after = await _play(
            on, "llamacpp_tool_output_turn.sse", previous_response_id=response["id"], input=[given]
        )
        assert after["output"][0]["content"][0]["text"] == _text("llamacpp_tool_output_turn.sse")
        user_turn, *_, call_turn, output_turn = second.input
        assert user_turn["type"] == "message"
        keys = ("type", "call_id", "name", "arguments")
        assert call_turn == {key: call[key] for key in keys}
        assert output_turn == given


async def test_the_token_limit_is_incomplete() -> None:
    name = "llamacpp_max_output_tokens.sse"
    spent = events(name)[-1]["response"]["usage"]["output_tokens"]
    async with llama() as on:
        exchange, response = await _play(on, name, max_output_tokens=spent)
        assert exchange.body["max_output_tokens"] == spent
        assert response["status"] == "incomplete"
        assert response["incomplete_details"] == {"reason": "max_output_tokens"}
        assert response["output"][0]["content"][0]["text"] == _text(name)
        exchange, _ = await _play(on, "llamacpp_plain.sse", previous_response_id=response["id"])
        assert exchange.input[1]["content"] == [{"type": "output_text", "text": _text(name)}]
        _, free = await _play(on, name, max_output_tokens=spent + 1)
        assert free["status"] == "completed"


async def test_a_call_cut_by_the_token_limit() -> None:
    name = "llamacpp_tools_cut.sse"
    spent = events(name)[-1]["response"]["usage"]["output_tokens"]
    async with llama() as on:
        _, response = await _play(on, name, max_output_tokens=spent)
        assert response["status"] == "incomplete"
        (call,) = response["output"]
        assert call["arguments"] == "{"
        # It was called complete before anybody could know better, so it may be answered. The
        # server parses arguments again, so it gets an object.
        given = {"type": "function_call_output", "call_id": call["call_id"], "output": "bad JSON"}
        exchange, _ = await _play(
            on, "llamacpp_plain.sse", previous_response_id=response["id"], input=[given]
        )
        assert exchange.input[1]["arguments"] == "{}"
        assert exchange.input[2] == given


async def test_its_error_in_mid_stream_is_bare() -> None:
    body = tape("llamacpp_plain.sse")
    cut = body.index(b"event: response.output_text.done")
    error = b'data: {"error":{"code":500,"message":"slot lost","type":"server_error"}}\n\n'
    async with llama() as on:
        _, response = await on.turn("a", [body[:cut] + error])
        told = {"code": "server_error", "message": "slot lost", "type": "server_error"}
        assert response["error"] == told
        (item,) = response["output"]
        assert (item["status"], item["content"][0]["text"]) == (
            "incomplete",
            _text("llamacpp_plain.sse"),
        )


async def test_input_items_are_typed_and_what_it_does_not_know_is_left_out() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
    content = [{"type": "input_text", "text": "look"}, image]
    given: list[dict[str, Any]] = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": content, "id": "msg_1", "x": 1},
        {"type": "zebra", "id": "z_1", "stripes": []},
    ]
    async with llama() as on:
        exchange, _ = await _play(on, "llamacpp_plain.sse", input=given)
        assert exchange.input == [
            {"type": "message", "role": "system", "content": "be brief"},
            {"type": "message", "role": "user", "content": content},
        ]


async def test_nulls_are_left_out() -> None:
    async with llama() as on:
        exchange, _ = await _play(on, "llamacpp_plain.sse", temperature=None, top_p=0, tools=None)
        assert exchange.body.keys() == {"model", "input", "stream", "store", "top_p"}


ERRORS = {
    "badjson": (400, "invalid_request_error", "parse error"),
    "context_overflow": (400, "context_length_exceeded", "exceeds the available context size"),
    "image": (500, "server_error", "image input is not supported"),
    "input_type": (400, "invalid_request_error", "must be a string or array"),
    "noinput": (400, "invalid_request_error", "is required"),
    "previous_response_id": (400, "invalid_request_error", "previous_response_id"),
}


@pytest.mark.parametrize("name", ERRORS)
async def test_its_http_errors(name: str) -> None:
    status, code, words = ERRORS[name]
    async with llama() as on:
        exchange = await on.asked("a")
        await exchange.write(tape(f"llamacpp_err_{name}.http"))
        exchange.cut()
        error = await on.client.error("a")
        assert (error["status"], error["error"]["code"]) == (status, code)
        assert words in error["error"]["message"]
        _, after = await _play(on, "llamacpp_plain.sse")
        assert after["status"] == "completed"


def test_every_recorded_error_is_played() -> None:
    assert names("llamacpp_err_*.http") == sorted(f"llamacpp_err_{name}.http" for name in ERRORS)
