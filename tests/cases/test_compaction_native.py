"""A backend that compacts by itself, and items that only it can read (protocol.md 9)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cases.test_compaction import TRIGGER, compacted
from tests.support.events import completed, created, event, item_added, item_done
from tests.support.gateway_stand import Stand, answer, said, stand, user
from tests.support.http_client import requested
from tests.support.several_upstreams import several

if TYPE_CHECKING:
    from tests.support.client import Event

OWN = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA-own"}
HISTORY = [
    {"role": "system", "content": "Be brief."},
    user("one"),
    {"role": "assistant", "content": "1"},
    user("two"),
]


def made() -> list[bytes]:
    """The answer of a backend that compacts."""
    compacting = event("response.compaction.compacting", item_id="cmp_1", output_index=0)
    return [created(), item_added(OWN), compacting, item_done(OWN), completed(output=[OWN])]


async def own_item(on: Stand, **extra: Any) -> tuple[Event, Event]:
    """A response that the backend compacts, and its item."""
    exchange, response = await on.turn(None, made(), **extra)
    assert exchange.input[-1] == TRIGGER
    (item,) = response["output"]
    assert item["encrypted_content"] == "gAAAA-own"
    return response, item


async def test_a_trigger_goes_to_the_backend_and_its_item_comes_back() -> None:
    async with stand(compaction="native") as on:
        _, first = await on.turn(input=HISTORY)
        response, item = await own_item(on, previous_response_id=first["id"], input=[TRIGGER])
        exchange, _ = await on.turn(previous_response_id=response["id"], input="three")
        assert said(exchange) == ["Be brief.", "three"]
        assert exchange.input[1]["encrypted_content"] == "gAAAA-own"
        window = [user("one"), user("two"), item, user("three")]
        exchange, _ = await on.turn(input=window)
        assert said(exchange) == ["one", "two", "three"]


async def test_a_threshold_goes_to_the_backend() -> None:
    management = [{"type": "compaction", "compact_threshold": 1}]
    async with stand(compaction="native") as on:
        exchange, _ = await on.turn(input=HISTORY, context_management=management)
        assert exchange.body["context_management"] == management
        assert len(exchange.input) == len(HISTORY)


async def test_the_endpoint_returns_the_messages_and_the_backends_item() -> None:
    async with stand(lambda _: made(), compaction="native") as on:
        body = json.dumps({"model": "m", "input": HISTORY}).encode()
        lines = {"content-type": "application/json"}
        async with requested(on.url, "POST", "/responses/compact", body, lines) as answer:
            found = await answer.json()
        *messages, item = found["output"]
        assert [one["content"][0]["text"] for one in messages] == ["Be brief.", "one", "two"]
        assert item["encrypted_content"] == "gAAAA-own"


async def test_what_the_gateway_sealed_is_read_to_a_backend_that_compacts_itself() -> None:
    async with stand(compaction="gateway") as on:
        response = await compacted(on, input=[*HISTORY, TRIGGER])
        exchange, _ = await on.turn(previous_response_id=response["id"], input="three")
        assert "compaction" not in {item.get("type") for item in exchange.input}


@pytest.mark.parametrize("dialect", ["generic", "vllm", "chat"])
async def test_a_foreign_item_is_not_lost_silently(dialect: str) -> None:
    async with stand(dialect=dialect, compaction="native") as on:
        error = await on.refused("a", input=[user("one"), OWN, user("two")])
        assert error["status"] == 400
        assert error["error"]["code"] == "invalid_compaction_item"
        assert error["error"]["param"] == "input[1]"


async def test_a_look_alike_is_not_asked_to_compact() -> None:
    """It speaks the dialect, and its host is none of the service's."""
    async with stand(dialect="openai") as on:
        await compacted(on, input=[*HISTORY, TRIGGER])


@pytest.mark.parametrize("dialect", ["generic", "chat"])
async def test_no_fallback_is_asked_that_cannot_read_the_item(dialect: str) -> None:
    tables: dict[str, dict[str, Any]] = {
        "one": {"models": ["m"], "fallbacks": ["two"]},
        "two": {"models": ["n"], "default": "n", "dialect": dialect},
    }
    async with several(tables) as of:
        exchange = await of["one"].asked(input=[user("one"), OWN, user("two")])
        await exchange.reply(503, {"error": {"message": "away"}})
        assert (await of.client.error())["status"] == 503
        assert of.asked() == {"one": 1, "two": 0}


async def test_a_fallback_reads_what_the_gateway_sealed() -> None:
    tables: dict[str, dict[str, Any]] = {
        "one": {"models": ["m"], "fallbacks": ["two"]},
        "two": {"models": ["n"], "default": "n", "dialect": "generic"},
    }
    async with several(tables) as of:
        response = await compacted(of["one"], input=[*HISTORY, TRIGGER])
        exchange = await of["one"].asked(previous_response_id=response["id"], input="three")
        await exchange.reply(503, {"error": {"message": "away"}})
        exchange = await of.fakes["two"].next()
        assert said(exchange)[-1] == "three"
        await answer(exchange)
        assert (await of.client.ended())["status"] == "completed"
