"""What only its maker can read goes back to it, however the history comes (D40)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gateway.config.settings import Settings
from tests.cases.test_chat import F
from tests.dialects.chatting import DONE, body, chunk, counted, text
from tests.dialects.test_chat_goes_back import DETAILS, GOOGLE
from tests.support.client import connect
from tests.support.conversations import begin
from tests.support.gateway import running
from tests.support.gateway_stand import Stand, answer, stand, user
from tests.support.redis_engine import Engine
from tests.support.several_upstreams import several

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.exchange import Exchange

Item = dict[str, Any]

SIGNED = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{}"}}
ANSWER = [
    body(
        [
            chunk(reasoning="hm", reasoning_details=DETAILS),
            chunk(tool_calls=[SIGNED | {"extra_content": GOOGLE}]),
            chunk("tool_calls"),
            counted(),
        ]
    )
]
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "18 C"}


def whole(exchange: Exchange) -> Item:
    """The assistant's message, which has all that came with it."""
    message: Item
    (message,) = (one for one in exchange.body["messages"] if one["role"] == "assistant")
    assert message["reasoning"] == "hm"
    assert message["reasoning_details"] == DETAILS
    assert message["tool_calls"][0]["extra_content"] == GOOGLE
    return message


def bare(message: Item) -> None:
    """The assistant's message has nothing that another backend made for itself."""
    assert message.keys() <= {"role", "content", "tool_calls"}
    assert message["tool_calls"][0].keys() == {"id", "type", "function"}


async def _first(on: Stand, **extra: Any) -> Item:
    _, response = await on.turn("a", ANSWER, input=[user("go")], tools=[F], **extra)
    return response


@pytest.mark.parametrize("lane", ["a", "b"], ids=["chain", "fork"])
async def test_on_a_chain_and_a_fork_of_it(lane: str) -> None:
    async with stand(dialect="chat", retries=0) as on:
        first = await _first(on, store=False)
        exchange, _ = await on.turn(
            lane, body_of("x"), previous_response_id=first["id"], input=[OUTPUT]
        )
        whole(exchange)


async def test_in_input_that_the_client_sends_itself() -> None:
    async with stand(dialect="chat", retries=0) as on:
        first = await _first(on)
        history = [user("go"), *first["output"], OUTPUT]
        exchange, _ = await on.turn("b", body_of("x"), input=history)
        whole(exchange)


async def test_in_a_conversation() -> None:
    async with stand(dialect="chat", retries=0) as on:
        name = await begin(on)
        await _first(on, conversation=name)
        exchange, _ = await on.turn("b", body_of("x"), conversation=name, input=[OUTPUT])
        whole(exchange)


async def test_on_another_connection() -> None:
    async with stand(dialect="chat", retries=0) as on:
        first = await _first(on, store=True)
        async with connect(on.url) as client:
            other = Stand(on.fake, client, on.url, on.errors)
            exchange, _ = await other.turn(
                "a", body_of("x"), previous_response_id=first["id"], input=[OUTPUT]
            )
            whole(exchange)


async def test_in_another_process(tmp_path: Path) -> None:
    engine = Engine("valkey", tmp_path)
    await engine.start()
    try:
        shared: Item = {"dialect": "chat", "retries": 0, "redis_url": f"unix://{engine.path}"}
        async with stand(**shared) as here, stand(**shared) as there:
            first = await _first(here, store=True)
            exchange, _ = await there.turn(
                "a", body_of("x"), previous_response_id=first["id"], input=[OUTPUT]
            )
            whole(exchange)
    finally:
        engine.kill()


async def test_after_a_steer() -> None:
    async with stand(dialect="chat", retries=0) as on:
        exchange = await on.asked("a", input="tell")
        await exchange.send(body([chunk(reasoning="hm"), *text("Once", " upon")], done=False))
        for _ in range(2):
            await on.client.until("response.output_text.delta")
        await on.client.steer(on.client.transcript[0]["response"]["id"], "shorter")
        following = await on.fake.next()
        message = following.body["messages"][1]
        assert message == {"role": "assistant", "content": "Once upon", "reasoning": "hm"}
        await answer(following, body_of("x"))
        await on.client.ended("a")


async def test_only_its_maker_gets_it_after_a_fallback() -> None:
    tables = {
        "one": {"models": ["m"], "fallbacks": ["two"], "dialect": "chat"},
        "two": {"models": ["n"], "default": "n", "dialect": "chat"},
    }
    async with several(tables) as of:
        _, first = await of["one"].turn("a", ANSWER, model="m", input=[user("go")], tools=[F])
        again = {"model": "m", "previous_response_id": first["id"], "input": [OUTPUT]}
        exchange = await of["one"].asked("a", **again)
        whole(exchange)
        await exchange.reply(503, {"error": {"message": "away"}})
        exchange = await of.fakes["two"].next()
        bare(exchange.body["messages"][1])
        await answer(exchange, body_of("from two", reasoning="so"))
        second = await of.client.ended("a")
        exchange = await of["one"].asked(
            "a", model="m", previous_response_id=second["id"], input=[user("on")]
        )
        first_message, last = (o for o in exchange.body["messages"] if o["role"] == "assistant")
        assert first_message["reasoning_details"] == DETAILS
        assert last == {"role": "assistant", "content": "from two", "reasoning": "so"}
        await answer(exchange, body_of("x"))
        await of.client.ended("a")


@pytest.mark.parametrize("stateless", [False, True], ids=["chain", "stateless"])
async def test_through_another_gateway(stateless: bool) -> None:
    async with stand(dialect="chat", retries=0) as on:
        outer = Settings(upstream=on.url, dialect="openai", retries=0)
        async with running(outer) as url, connect(url) as client:
            behind = Stand(on.fake, client, url, on.errors)
            first = await _first(behind)
            if stateless:
                create: Item = {"input": [user("go"), *first["output"], OUTPUT]}
            else:
                create = {"input": [OUTPUT], "previous_response_id": first["id"]}
            exchange, _ = await behind.turn("a", body_of("x"), **create)
            whole(exchange)


def body_of(said: str, **first: Any) -> list[bytes]:
    """An answer of one text."""
    head = [chunk(**first)] if first else []
    return [body([*head, *text(said), chunk("stop"), counted()], done=False) + DONE]
