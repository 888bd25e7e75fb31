"""Good answers in bodies of another form: one upstream call, and the stream that they mean."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from tests.dialects.chatting import body, call, chunk, counted, text
from tests.support.events import USAGE, message, reply, response
from tests.support.gateway_stand import Stand, answer, stand

JSON = {"content-type": "application/json"}
KINDS = ["application/json", "application/x-ndjson", "text/html", "application/octet-stream", None]
CALL = {"type": "function_call", "id": "f1", "call_id": "c1", "name": "f", "arguments": '{"a":1}'}
THOUGHT = {
    "type": "reasoning",
    "id": "rs1",
    "summary": [{"type": "summary_text", "text": "Hm"}],
}


def kinds(on: Stand) -> list[str]:
    seen = [one["type"].removeprefix("response.") for one in on.client.lane("a")]
    return [kind for kind in seen if not kind.startswith("content_part")]


async def _whole(on: Stand, value: Any, **headers: str) -> dict[str, Any]:
    exchange = await on.asked("a")
    await exchange.reply(200, value, headers)
    return await on.client.ended("a")


@pytest.mark.parametrize("kind", KINDS)
async def test_an_event_stream_under_another_name(kind: str | None) -> None:
    async with stand() as on:
        exchange = await on.asked("a")
        await exchange.head(200, {} if kind is None else {"content-type": kind})
        await answer(exchange)
        assert (await on.client.ended("a"))["status"] == "completed"
        await on.usable("a")


@pytest.mark.parametrize("kind", ["application/x-ndjson", "text/event-stream", None])
async def test_events_on_lines_flow_as_they_come(kind: str | None) -> None:
    lines = [block.partition(b"data: ")[2].rstrip() + b"\n" for block in reply("a", "b")]
    async with stand() as on:
        exchange = await on.asked("a")
        await exchange.head(200, {} if kind is None else {"content-type": kind})
        await exchange.send(*lines[:-2])
        await on.client.until("response.output_text.delta", lane="a")
        await exchange.send(*lines[-2:])
        await exchange.end()
        ended = await on.client.ended("a")
        assert ended["output"][0]["content"][0]["text"] == "ab"


@pytest.mark.parametrize("named", [True, False])
async def test_an_answer_that_was_not_to_be_compressed(named: bool) -> None:
    async with stand() as on:
        exchange = await on.asked("a")
        packed = gzip.compress(b"".join(reply("a")))
        await exchange.head(200, {"content-encoding": "gzip"} if named else {})
        await exchange.send(packed[:20], packed[20:])
        await exchange.end()
        assert (await on.client.ended("a"))["status"] == "completed"
        refused = await on.asked("a")
        told = gzip.compress(b'{"error":{"message":"no such model","code":"model_not_found"}}')
        await refused.reply(404, told, {"content-encoding": "gzip"})
        assert (await on.client.error("a"))["error"]["code"] == "model_not_found"


@pytest.mark.parametrize("bare", [False, True])
async def test_a_whole_response_becomes_its_stream(bare: bool) -> None:
    whole = response("r1", "completed", usage=USAGE) | {"output": [THOUGHT, message("ab"), CALL]}
    if bare:
        del whole["object"]
    async with stand() as on:
        ended = await _whole(on, whole)
        assert ended["status"] == "completed"
        assert ended["usage"] == USAGE
        assert [item["type"] for item in ended["output"]] == [
            *("reasoning", "message", "function_call")
        ]
        assert kinds(on) == [
            *("created", "in_progress", "output_item.added", "reasoning_summary_part.added"),
            *("reasoning_summary_text.delta", "reasoning_summary_text.done"),
            *("reasoning_summary_part.done", "output_item.done", "output_item.added"),
            *("output_text.delta", "output_text.done", "output_item.done", "output_item.added"),
            *("function_call_arguments.delta", "function_call_arguments.done"),
            *("output_item.done", "completed"),
        ]
        assert len(on.fake.exchanges) == 1
        await on.usable("a")


async def test_it_is_a_parent_like_any_other() -> None:
    async with stand() as on:
        first = await _whole(on, response("r1", "completed") | {"output": [message("ab")]})
        exchange = await on.asked("a", previous_response_id=first["id"], input="and?")
        assert [one["role"] for one in exchange.input] == ["user", "assistant", "user"]
        await answer(exchange)
        await on.client.ended("a")


ENDS = [
    ("incomplete", {"incomplete_details": {"reason": "max_output_tokens"}}, "incomplete"),
    ("failed", {"error": {"code": "server_error", "message": "no"}}, "failed"),
    ("cancelled", {}, "failed"),
    (None, {}, "completed"),
]


@pytest.mark.parametrize(("status", "extra", "end"), ENDS)
async def test_its_status_says_how_it_ended(status: Any, extra: Any, end: str) -> None:
    async with stand() as on:
        whole = response("r1", status) | {"output": [message("ab")]} | extra
        ended = await _whole(on, whole)
        assert ended["status"] == end
        assert len(on.fake.exchanges) == 1
        await on.usable("a")


@pytest.mark.parametrize("status", ["queued", "in_progress"])
async def test_one_that_is_not_over_is_an_error(status: str) -> None:
    async with stand() as on:
        exchange = await on.asked("a")
        await exchange.reply(200, response("r1", status))
        error = await on.client.error("a")
        assert error["status"] == 502
        assert status in error["error"]["message"]
        await on.usable("a")


@pytest.mark.parametrize("layout", ["event", "data", "pretty", "done"])
async def test_a_whole_response_within_an_event_stream(layout: str) -> None:
    whole = response("r1", "completed") | {"output": [message("ab")]}
    text = json.dumps(whole, indent=2 if layout == "pretty" else None)
    forms = {
        "event": f"event: response.completed\ndata: {text}\n\n",
        "data": f": hi\n\ndata: {text}\n\n",
        "pretty": f"{text}\n",
        "done": f"{text}\ndata: [DONE]\n\n",
    }
    async with stand() as on:
        exchange = await on.asked("a")
        await answer(exchange, [forms[layout].encode()])
        ended = await on.client.ended("a")
        assert ended["output"][0]["content"][0]["text"] == "ab"


ERRORS: list[tuple[Any, int, str]] = [
    ({"error": {"message": "m", "type": "rate_limit", "code": 429}}, 429, "rate_limit_exceeded"),
    ({"error": {"message": "m", "code": "model_not_found"}}, 404, "model_not_found"),
    ({"error": {"message": "m", "type": "invalid_request_error"}}, 400, "invalid_request_error"),
    ([{"error": {"message": "m", "code": 503}}], 503, "server_error"),
    ({"error": "m"}, 500, "server_error"),
    ({"detail": "m"}, 500, "server_error"),
    ({"object": "error", "message": "m", "code": 404}, 404, "not_found"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "status", "code"), ERRORS)
@pytest.mark.parametrize("dialect", ["generic", "chat"])
async def test_an_error_with_200_is_the_backends_own(
    value: Any, status: int, code: str, dialect: str
) -> None:
    async with stand(dialect=dialect, retries=0) as on:
        exchange = await on.asked("a")
        await exchange.reply(200, json.dumps(value).encode())
        error = await on.client.error("a")
        assert (error["status"], error["error"]["code"]) == (status, code)
        assert error["error"]["message"] == "m"
        assert len(on.fake.exchanges) == 1


def completion(**message: Any) -> dict[str, Any]:
    whole = {"id": "c", "object": "chat.completion", "created": 1790000000, "model": "q"}
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return {**whole, "choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}


@pytest.mark.parametrize("finish", ["stop", None])
async def test_a_whole_chat_completion_becomes_its_stream(finish: str | None) -> None:
    entry = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    whole = completion(content="ab", reasoning_content="Hm", tool_calls=[entry])
    whole["choices"][0]["finish_reason"] = finish
    async with stand(dialect="chat", retries=0) as on:
        ended = await _whole(on, whole)
        assert (ended["status"], ended["usage"]["total_tokens"]) == ("completed", 5)
        assert [item["type"] for item in ended["output"]] == [
            *("reasoning", "message", "function_call")
        ]
        assert len(on.fake.exchanges) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["sse", "lines", "list"])
async def test_chunks_under_another_name(kind: str | None, form: str) -> None:
    chunks = [*text("a", "b"), call(0, "f", '{"a":1}', "c1"), chunk("tool_calls"), counted()]
    forms = {
        "sse": body(chunks),
        "lines": b"".join(json.dumps(one).encode() + b"\n" for one in chunks),
        "list": json.dumps(chunks).encode(),
    }
    async with stand(dialect="chat", retries=0) as on:
        exchange = await on.asked("a")
        await exchange.head(200, {} if kind is None else {"content-type": kind})
        await exchange.send(forms[form])
        await exchange.end()
        ended = await on.client.ended("a")
        assert ended["status"] == "completed"
        assert ended["output"][0]["content"][0]["text"] == "ab"
        assert ended["output"][1]["arguments"] == '{"a":1}'


async def test_a_whole_completion_that_is_torn_fails() -> None:
    async with stand(dialect="chat", retries=0) as on:
        exchange = await on.asked("a")
        await exchange.head(200, JSON)
        await exchange.send(json.dumps(completion(content="ab")).encode()[:-9])
        await exchange.end()
        assert (await on.client.error("a"))["status"] == 502
