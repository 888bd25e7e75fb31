"""The chat dialect end to end, with a scripted backend that looks closely at requests."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from tests.dialects.chat_judge import refuses
from tests.dialects.chatting import DONE, Chunk, body, call, chunk, counted, text
from tests.support.conversations import begin, texts
from tests.support.gateway_stand import Stand, stand, user
from tests.support.hang_guard import HANG
from tests.tapes import tape

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.exchange import Exchange

F = {"type": "function", "name": "f", "parameters": {"type": "object"}}
SHELL = {"type": "custom", "name": "sh"}


@asynccontextmanager
async def chat(**settings: Any) -> AsyncIterator[Stand]:
    """A gateway that speaks Chat; all that it asked for at the end was what a server takes."""
    async with stand(dialect="chat", retries=0, **settings) as on:
        yield on
        for exchange in on.fake.exchanges:
            assert exchange.path == "/v1/chat/completions"
            assert refuses(exchange.body) is None, exchange.body


def _answer(*chunks: Chunk | bytes, finish: str = "stop") -> list[bytes]:
    return [body([*chunks, chunk(finish), counted()])]


async def _turn(on: Stand, *chunks: Chunk, finish: str = "stop", **extra: Any) -> tuple[Any, Any]:
    exchange, response = await on.turn("a", _answer(*chunks, finish=finish), **extra)
    return exchange.body["messages"], response


async def test_a_conversation() -> None:
    async with chat() as on:
        name = await begin(on, user("before"))
        for turn in range(2):
            asked, _ = await _turn(on, *text("Hel", "lo"), conversation=name, input=f"{turn}")
        assert [one["content"] for one in asked] == ["before\n\n0", "Hello", "1"]
        assert await texts(on, name) == ["before", "0", "Hello", "1", "Hello"]


async def test_a_turn_and_its_continuation() -> None:
    async with chat() as on:
        asked, first = await _turn(on, *text("Hel", "lo"), instructions="be brief", input="hi")
        assert asked == [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "hi"},
        ]
        assert (first["status"], first["usage"]["total_tokens"]) == ("completed", 5)
        asked, _ = await _turn(
            on, *text("x"), previous_response_id=first["id"], input=[user("and?")]
        )
        assert [(one["role"], one["content"]) for one in asked] == [
            ("user", "hi"),
            ("assistant", "Hello"),
            ("user", "and?"),
        ]


async def test_tools_custom_tools_and_the_turn_after_them() -> None:
    async with chat() as on:
        calls = [
            call(0, "f", '{"a":1}', "c1"),
            call(1, "sh", '{"input":"ls"}', "c2"),
        ]
        _, first = await _turn(
            on, *text("Wait."), *calls, finish="tool_calls", tools=[F, SHELL], input="go"
        )
        kinds = [item["type"] for item in first["output"]]
        assert kinds == ["message", "function_call", "custom_tool_call"]
        assert first["output"][2]["input"] == "ls"
        given = [
            {"type": "custom_tool_call_output", "call_id": "c2", "output": "README"},
            user("hurry"),
            {"type": "function_call_output", "call_id": "c1", "output": "18 C"},
        ]
        asked, _ = await _turn(on, *text("x"), previous_response_id=first["id"], input=given)
        assert [one["role"] for one in asked] == ["user", "assistant", "tool", "tool", "user"]
        assert [one.get("tool_call_id") for one in asked[2:4]] == ["c1", "c2"]
        assert asked[1]["content"] == "Wait."


async def _steered(on: Stand, exchange: Exchange, value: str) -> Exchange:
    first = on.client.transcript[0]["response"]["id"]
    await on.client.steer(first, value)
    await on.client.until("response.steer.accepted")
    return await on.fake.next()


async def test_a_steer_in_mid_text() -> None:
    async with chat() as on:
        exchange = await on.asked("a", input="tell", instructions="be kind")
        await exchange.send(body(text("Once", " upon"), done=False))
        await on.client.until("response.output_text.delta")
        await on.client.until("response.output_text.delta")
        following = await _steered(on, exchange, "shorter")
        with anyio.fail_after(HANG):
            await exchange.closed.wait()
        assert [one["content"] for one in following.body["messages"]] == [
            "be kind",
            "tell",
            "Once upon",
            "shorter",
        ]
        await following.send(*_answer(*text("ok")))
        await following.end()
        cut = await on.client.ended("a")
        assert cut["incomplete_details"] == {"reason": "steered"}
        after = await on.client.ended("a")
        assert (after["status"], after["previous_response_id"]) == ("completed", cut["id"])


async def test_a_steer_in_mid_call_waits_for_the_output() -> None:
    async with chat() as on:
        exchange = await on.asked("a", input="go", tools=[F])
        await exchange.send(body([call(0, "f", '{"a"', "c1")], done=False))
        await on.client.until("response.function_call_arguments.delta")
        first = on.client.transcript[0]["response"]["id"]
        await on.client.steer(first, "and be quick")
        await on.client.until("response.steer.accepted")
        await exchange.send(body([call(0, None, ":1}"), chunk("tool_calls"), counted()]))
        await exchange.end()
        assert (await on.client.ended("a"))["status"] == "completed"
        await on.client.until("response.steer.pending")
        given = {"type": "function_call_output", "call_id": "c1", "output": "18 C"}
        asked, _ = await _turn(on, *text("x"), previous_response_id=first, input=[given])
        assert [one["role"] for one in asked] == ["user", "assistant", "tool", "user"]
        assert asked[-1]["content"] == "and be quick"


async def test_a_steer_before_any_text() -> None:
    async with chat() as on:
        exchange = await on.asked("a", input="tell")
        await exchange.send(body([chunk(role="assistant"), chunk(reasoning="hm")], done=False))
        await on.client.until("response.reasoning_text.delta")
        following = await _steered(on, exchange, "no")
        assert following.body["messages"] == [{"role": "user", "content": "tell\n\nno"}]
        await following.send(*_answer(*text("ok")))
        await following.end()
        await on.client.ended("a")
        assert (await on.client.ended("a"))["status"] == "completed"


@pytest.mark.parametrize("chunks", [["length"], ["length", "usage"], ["length", "usage", "done"]])
async def test_the_token_limit(chunks: list[str]) -> None:
    told: dict[str, Any] = {"length": chunk("length"), "usage": counted(), "done": DONE}
    async with chat() as on:
        last: list[Chunk | bytes] = [told[name] for name in chunks]
        data = [body([*text("One", " two"), *last], done=False)]
        exchange, response = await on.turn("a", data, max_output_tokens=2)
        assert exchange.body["max_tokens"] == 2
        assert response["incomplete_details"] == {"reason": "max_output_tokens"}
        asked, _ = await _turn(on, *text("x"), previous_response_id=response["id"], input=[])
        assert [one["content"] for one in asked] == ["hi", "One two", "Continue."]


async def test_what_breaks_off_after_its_finish_reason_lacked_nothing() -> None:
    async with chat() as on:
        exchange = await on.asked("a")
        await exchange.send(body([*text("a"), chunk("stop")], done=False))
        await on.client.until("response.output_text.delta")
        exchange.reset()
        assert (await on.client.ended("a"))["status"] == "completed"
        exchange = await on.asked("a")
        await exchange.send(body(text("a"), done=False))
        await on.client.until("response.output_text.delta")
        exchange.reset()
        assert (await on.client.ended("a"))["status"] == "failed"


async def test_an_answer_that_is_complete_frees_the_lane_though_the_body_stays_open() -> None:
    async with chat() as on:
        exchange = await on.asked("a")
        await exchange.send(*_answer(*text("a")))
        assert (await on.client.ended("a"))["status"] == "completed"
        await _turn(on, *text("b"))


REFUSALS: list[tuple[int, Any, str]] = [
    (400, {"error": {"message": "bad", "type": "invalid_request_error"}}, "invalid_request_error"),
    (401, {"error": {"message": "who?", "code": "invalid_api_key"}}, "invalid_api_key"),
    (404, {"error": {"message": "no such model"}}, "not_found"),
    (422, {"detail": [{"loc": ["body"], "msg": "bad", "type": "x"}]}, "invalid_request_error"),
    (429, {"error": {"message": "slow down", "code": 429}}, "rate_limit_exceeded"),
    (500, b"<html>oops</html>", "server_error"),
    (
        400,
        {"error": {"message": "This model's maximum context length is 4096 tokens."}},
        "context_length_exceeded",
    ),
]


@pytest.mark.parametrize(("status", "told", "code"), REFUSALS)
async def test_refusals(status: int, told: Any, code: str) -> None:
    async with chat() as on:
        exchange = await on.asked("a")
        await exchange.reply(status, told)
        error = await on.client.error("a")
        assert (error["status"], error["error"]["code"]) == (status, code)
        await _turn(on, *text("b"))


async def test_a_page_is_refused() -> None:
    async with chat() as on:
        exchange = await on.asked("a")
        await exchange.reply(200, b"<p>Sign in</p>", {"content-type": "text/html"})
        error = await on.client.error("a")
        assert error["status"] == 502
        assert "text/html instead of an event stream" in error["error"]["message"]


async def test_an_error_in_mid_stream() -> None:
    async with chat() as on:
        error = {"error": {"message": "slow down", "code": 429}}
        _, response = await on.turn("a", [body([*text("a"), error])])
        assert response["error"]["code"] == "rate_limit_exceeded"
        exchange = await on.asked("a")
        await exchange.send(body([error]))
        assert (await on.client.error("a"))["status"] == 429


@pytest.mark.parametrize("size", [1, 7, 4096])
async def test_the_tapes(size: int) -> None:
    async with chat() as on:
        for name, status in (("chat_text_tool", "completed"), ("chat_llamacpp", "incomplete")):
            data = tape(f"{name}.sse")
            chunks = [data[at : at + size] for at in range(0, len(data), size)]
            _, response = await on.turn("a", chunks)
            assert response["status"] == status
