"""Compaction by a summary that the backend writes (protocol.md 9)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gateway.upstream.dialect import dialect_names, find
from lanes.compaction.prompt import SUMMARY_INTRODUCTION, SUMMARY_PROMPT
from tests.support.events import data, reply
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
