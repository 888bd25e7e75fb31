"""Compaction items in conversations, over HTTP, and where input is counted or listed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import anyio
import pytest

from lanes.compaction.prompt import SUMMARY_INTRODUCTION, SUMMARY_PROMPT
from tests.cases.test_compaction import TRIGGER, compacted
from tests.support.client import connect
from tests.support.conversations import ask, begin
from tests.support.events import reply
from tests.support.gateway_stand import answer, said, stand, user
from tests.support.http_client import posted, requested

if TYPE_CHECKING:
    from tests.support.exchange import Exchange

SUMMARY = SUMMARY_INTRODUCTION + "They talked."
HISTORY = [user("one"), {"role": "assistant", "content": "1"}, user("two")]


def script(exchange: Exchange) -> list[bytes]:
    return reply("They talked." if said(exchange)[-1] == SUMMARY_PROMPT else "ok")


async def test_a_conversation_goes_on_with_the_item_and_lists_all() -> None:
    async with stand() as on:
        name = await begin(on, user("before"))
        await on.turn(conversation=name, input="one")
        response = await compacted(on, conversation=name, input=[TRIGGER])
        exchange, _ = await on.turn(conversation=name, input="two")
        assert said(exchange) == ["before", "one", SUMMARY, "two"]
        _, listed = await ask(on, "GET", f"/{name}/items?order=asc")
        kinds = [item["type"] for item in listed["data"]]
        assert kinds == ["message", "message", "message", "compaction", "message", "message"]
        exchange, _ = await on.turn(previous_response_id=response["id"], input="three")
        assert said(exchange) == ["before", "one", SUMMARY, "three"]


async def test_a_stored_chain_goes_on_from_another_connection() -> None:
    async with stand() as on:
        _, first = await on.turn(input="one", store=True)
        response = await compacted(
            on, previous_response_id=first["id"], input=[TRIGGER], store=True
        )
        async with connect(on.url) as on.client:
            exchange, _ = await on.turn(previous_response_id=response["id"], input="two")
            assert said(exchange) == ["one", SUMMARY, "two"]
            exchange, _ = await on.turn(previous_response_id=first["id"], input="fork")
            assert said(exchange) == ["one", "ok", "fork"]


async def test_the_latest_of_several_items_counts() -> None:
    async with stand(script) as on:
        await on.client.create(input=[*HISTORY, TRIGGER])
        parent = await on.client.ended()
        for text in ("u0", "u1", "u2"):
            given = [user(text), TRIGGER]
            await on.client.create(previous_response_id=parent["id"], input=given)
            parent = await on.client.ended()
        await on.client.create(previous_response_id=parent["id"], input="last")
        await on.client.ended()
        sent = said(on.fake.exchanges[-1])
        assert sent == ["one", "two", "u0", "u1", "u2", SUMMARY, "last"]


async def test_a_reference_to_an_item_is_the_item() -> None:
    async with stand() as on:
        response = await compacted(on, input=[*HISTORY, TRIGGER])
        named = {"type": "item_reference", "id": response["output"][0]["id"]}
        exchange, _ = await on.turn(input=[named, user("three")])
        assert said(exchange) == ["one", "two", SUMMARY, "three"]


@pytest.mark.parametrize("stream", [False, True])
async def test_over_http(stream: bool) -> None:
    async with stand(script) as on:
        async with posted(on.url, {"input": [*HISTORY, TRIGGER], "stream": stream}) as got:
            response = (await got.events())[-1]["response"] if stream else await got.json()
        [item] = response["output"]
        assert item["type"] == "compaction"
        async with posted(on.url, {"input": [item, user("three")], "stream": stream}) as got:
            response = (await got.events())[-1]["response"] if stream else await got.json()
        assert response["status"] == "completed"
        assert said(on.fake.exchanges[-1]) == ["one", "two", SUMMARY, "three"]


async def test_over_http_an_item_that_cannot_be_opened() -> None:
    async with stand(script) as on:
        item = {"type": "compaction", "encrypted_content": "ml1.0123456789abcdef.AAAA"}
        for stream in (False, True):
            async with posted(on.url, {"input": [item], "stream": stream}) as got:
                assert got.status == 400
                assert (await got.json())["error"]["param"] == "input[0]"


async def test_in_the_background() -> None:
    async with stand(script) as on:
        body = {"input": [*HISTORY, TRIGGER], "background": True, "store": True, "stream": True}
        async with posted(on.url, body) as got:
            response = (await got.events())[-1]["response"]
        assert [item["type"] for item in response["output"]] == ["compaction"]


async def test_a_key_of_idempotency_gets_the_same_item() -> None:
    async with stand(script) as on:
        lines = {"idempotency-key": "k1"}
        items = []
        for _ in range(2):
            async with posted(on.url, {"input": [*HISTORY, TRIGGER]}, lines) as got:
                items.append((await got.json())["output"])
        assert items[0] == items[1]
        assert len(on.fake.exchanges) == 1


async def test_a_count_of_tokens_is_that_of_what_would_be_sent() -> None:
    async with stand() as on:
        response = await compacted(on, input=[*HISTORY, TRIGGER])
        given = [*HISTORY, response["output"][0], user("three")]
        body = json.dumps({"model": "m", "input": given}).encode()
        lines = {"content-type": "application/json"}
        asking = requested(on.url, "POST", "/responses/input_tokens", body, lines)
        async with anyio.create_task_group() as tasks:

            async def count() -> None:
                exchange = await on.fake.next()
                assert said(exchange) == ["one", "two", SUMMARY, "three"]
                await exchange.reply(200, {"input_tokens": 7})

            tasks.start_soon(count)
            async with asking as got:
                assert (await got.json())["input_tokens"] == 7


async def test_two_lanes_compact_at_once() -> None:
    async with stand() as on:
        _, first = await on.turn("a", input="one")
        exchanges = [
            await on.asked(lane, previous_response_id=first["id"], input=[user(lane), TRIGGER])
            for lane in ("a", "b")
        ]
        for exchange in exchanges:
            await answer(exchange, reply("They talked."))
        for lane in ("a", "b"):
            response = await on.client.ended(lane)
            exchange, _ = await on.turn(lane, previous_response_id=response["id"], input="on")
            assert said(exchange) == ["one", lane, SUMMARY, "on"]
