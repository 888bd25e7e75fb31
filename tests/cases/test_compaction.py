"""Compaction by a summary that the backend writes (protocol.md 9)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gateway.upstream.dialect import dialect_names, find
from lanes.compaction.prompt import SUMMARY_INTRODUCTION, SUMMARY_PROMPT
from tests.support.events import call_reply, data, reply
from tests.support.gateway_stand import Stand, answer, said, stand, user

if TYPE_CHECKING:
    from tests.support.client import Event

CHAT = [name for name in dialect_names() if find(name).converter is not None]
TRIGGER = {"type": "compaction_trigger"}


async def compacted(on: Stand, summary: str = "They talked.", **extra: Any) -> Event:
    """A response that compacts, with this summary."""
    exchange = await on.asked(**extra)
    assert said(exchange)[-1] == SUMMARY_PROMPT
    await answer(exchange, reply(summary))
    return await on.client.ended()


async def test_a_trigger_gets_one_compaction_item() -> None:
    async with stand() as on:
        _, first = await on.turn(input="What is a lane?")
        response = await compacted(on, previous_response_id=first["id"], input=[TRIGGER])
        assert response["status"] == "completed"
        assert [item["type"] for item in response["output"]] == ["compaction"]
        assert response["usage"]["output_tokens"] > 0
        kinds = [event["type"] for event in on.client.transcript][-6:]
        assert kinds == [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.compaction.compacting",
            "response.output_item.done",
            "response.completed",
        ]


async def test_what_came_before_a_compaction_item_is_replaced_by_the_summary() -> None:
    async with stand() as on:
        _, first = await on.turn(input="What is a lane?", instructions="Be brief.")
        parent = await compacted(on, previous_response_id=first["id"], input=[TRIGGER])
        exchange, _ = await on.turn(previous_response_id=parent["id"], input="Go on.")
        assert said(exchange) == [
            "What is a lane?",
            SUMMARY_INTRODUCTION + "They talked.",
            "Go on.",
        ]


async def test_a_client_that_keeps_its_messages_sends_the_item_back() -> None:
    async with stand() as on:
        history = [user("one"), {"role": "assistant", "content": "1"}, user("two")]
        response = await compacted(on, input=[*history, TRIGGER])
        (item,) = response["output"]
        kept = [user("one"), user("two"), item, user("three")]
        exchange, _ = await on.turn(input=kept)
        assert said(exchange) == ["one", "two", SUMMARY_INTRODUCTION + "They talked.", "three"]


def chat_reply(text: str) -> list[bytes]:
    """A whole answer in the form of Chat Completions."""
    words = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
    end: Event = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return [data(words), data(end), b"data: [DONE]\n\n"]


@pytest.mark.parametrize("dialect", [name for name in dialect_names() if name != "openai"])
async def test_an_item_opens_on_any_dialect(dialect: str) -> None:
    def say(text: str) -> list[bytes]:
        return chat_reply(text) if dialect in CHAT else reply(text)

    async with stand(dialect=dialect) as on:
        history = [user("one"), {"role": "assistant", "content": "1"}, user("two"), TRIGGER]
        await on.client.create(input=history)
        exchange = await on.fake.next()
        assert json.dumps(SUMMARY_PROMPT)[1:-1] in exchange.raw.decode()
        await answer(exchange, say("They talked."))
        (item,) = (await on.client.ended())["output"]
        assert item["type"] == "compaction"
        await on.client.create(input=[item, user("Go on.")])
        exchange = await on.fake.next()
        asked = exchange.raw.decode()
        texts = ["one", "two", "They talked.", "Go on."]
        assert sorted(texts, key=asked.index) == texts
        assert '"compaction"' not in asked
        await answer(exchange, say("ok"))
        assert (await on.client.ended())["status"] == "completed"


TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}


async def test_the_summary_is_asked_for_without_what_is_meant_for_the_answer() -> None:
    settings = {
        "instructions": "Be brief.",
        "max_output_tokens": 5,
        "text": {"format": {"type": "json_object"}},
        "tools": [TOOL],
        "tool_choice": "required",
        "include": ["reasoning.encrypted_content"],
        "seed": 7,
    }
    async with stand() as on:
        await on.client.create(input=[user("one"), TRIGGER], **settings)
        exchange = await on.fake.next()
        body = exchange.body
        assert not body.keys() & {"max_output_tokens", "text", "include"}
        assert (body["instructions"], body["seed"], body["tools"]) == ("Be brief.", 7, [TOOL])
        assert body["tool_choice"] == "none"
        await answer(exchange)
        response = await on.client.ended()
        assert response["status"] == "completed"
        assert response["tool_choice"] == "required"


async def test_a_model_that_calls_a_tool_instead_is_asked_again_without_tools() -> None:
    async with stand() as on:
        await on.client.create(input=[user("one"), TRIGGER], tools=[TOOL])
        await answer(await on.fake.next(), call_reply("f"))
        exchange = await on.fake.next()
        assert not exchange.body.keys() & {"tools", "tool_choice"}
        await answer(exchange, reply("They talked."))
        assert [item["type"] for item in (await on.client.ended())["output"]] == ["compaction"]


async def test_a_model_that_writes_nothing() -> None:
    async with stand() as on:
        await on.client.create("a", input=[user("one"), TRIGGER])
        await answer(await on.fake.next(), call_reply("f"))
        response = await on.client.ended("a")
        assert (response["status"], response["error"]["code"]) == ("failed", "server_error")
        await on.usable("a")


async def test_a_summary_that_breaks_off() -> None:
    async with stand(retries=0) as on:
        await on.client.create("a", input=[user("one"), TRIGGER])
        exchange = await on.fake.next()
        await exchange.send(*reply("half")[:-3])
        exchange.cut()
        assert (await on.client.ended("a"))["status"] == "failed"
        await on.usable("a")


async def test_cancelled_while_it_compacts() -> None:
    async with stand() as on:
        _, first = await on.turn("a", input="one")
        await on.client.create("a", previous_response_id=first["id"], input=[TRIGGER])
        exchange = await on.fake.next()
        await exchange.send(*reply("half")[:-3])
        await on.client.until("response.compaction.compacting")
        await on.client.cancel()
        response = await on.client.ended("a")
        assert response["status"] == "incomplete"
        await exchange.hang()
        exchange, _ = await on.turn("a", previous_response_id=response["id"], input="two")
        assert said(exchange) == ["one", "ok", "two"]


async def test_it_takes_no_steers() -> None:
    async with stand() as on:
        await on.client.create(input=[user("one"), TRIGGER])
        exchange = await on.fake.next()
        await exchange.send(*reply("half")[:-3])
        target = (await on.client.until("response.created"))[-1]["response"]["id"]
        await on.client.steer(target, "stop")
        failed = (await on.client.until("response.steer.failed"))[-1]
        assert failed["error"]["code"] == "steering_not_supported"


async def test_reasoning_goes_on_with_the_call_that_waits() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"}
    called = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "4"}
    async with stand() as on:
        response = await compacted(on, input=[user("one"), thought, called, TRIGGER])
        exchange, _ = await on.turn(input=[response["output"][0], output])
        kinds = [item["type"] for item in exchange.input if "type" in item][-3:]
        assert kinds == ["reasoning", "function_call", "function_call_output"]


async def test_large_histories_and_large_items() -> None:
    """Frames, bodies and items beyond what is read in the event loop."""
    async with stand() as on:
        history = [user("x" * 500_000), {"role": "assistant", "content": "1"}, user("y" * 70_000)]
        response = await compacted(on, input=[*history, TRIGGER])
        (item,) = response["output"]
        assert 100_000 < len(item["encrypted_content"]) < 400_000
        exchange, _ = await on.turn(input=[item, user("three")])
        texts = said(exchange)
        assert texts[1] == "y" * 70_000
        assert texts[2:] == [SUMMARY_INTRODUCTION + "They talked.", "three"]
        assert 9_000 < len(texts[0]) < 11_000
