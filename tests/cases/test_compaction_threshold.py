"""Automatic compaction: `context_management` with a threshold (protocol.md 9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lanes.compaction.prompt import SHORTENED, SUMMARY_INTRODUCTION, SUMMARY_PROMPT
from tests.support.client import connect
from tests.support.events import call_reply, completed, created, delta, message, reply
from tests.support.gateway_stand import Stand, answer, said, stand, user

if TYPE_CHECKING:
    from tests.support.client import Event
    from tests.support.exchange import Exchange

SUMMARY = SUMMARY_INTRODUCTION + "They talked."


def beyond(threshold: int | None = 1) -> Event:
    return {"context_management": [{"type": "compaction", "compact_threshold": threshold}]}


def told(summary: Exchange) -> list[str]:
    """What a summary is asked for of, which must be such a request."""
    *texts, prompt, length = said(summary)
    assert prompt == SUMMARY_PROMPT
    assert length.startswith("Use at most ")
    return texts


async def compacting(on: Stand, *deltas: str, **extra: Any) -> tuple[list[str], list[str], Event]:
    """A turn that compacts first: what is summarised, what is asked then, the response."""
    summary = await on.asked(**extra)
    summarised = told(summary)
    await answer(summary, reply("They talked."))
    exchange = await on.fake.next()
    await answer(exchange, reply(*(deltas or ("ok",))))
    assert "context_management" not in {**summary.body, **exchange.body}
    return summarised, said(exchange), await on.client.ended()


async def test_beyond_the_threshold_the_history_is_compacted_before_the_answer() -> None:
    async with stand() as on:
        _, first = await on.turn(input="one")
        summarised, asked, response = await compacting(
            on, previous_response_id=first["id"], input="two", **beyond()
        )
        assert summarised == ["one", "ok"]
        assert asked == ["one", SUMMARY, "two"]
        assert [item["type"] for item in response["output"]] == ["compaction", "message"]
        # The tokens of both requests.
        assert response["usage"]["total_tokens"] == 2 * first["usage"]["total_tokens"]
        exchange, _ = await on.turn(previous_response_id=response["id"], input="three")
        assert said(exchange) == ["one", SUMMARY, "two", "ok", "three"]


async def test_up_to_the_threshold_nothing_is_compacted() -> None:
    async with stand() as on:
        _, first = await on.turn(input="one")
        total = first["usage"]["total_tokens"]
        exchange, response = await on.turn(
            previous_response_id=first["id"], input="two", **beyond(total + 50)
        )
        assert said(exchange) == ["one", "ok", "two"]
        assert [item["type"] for item in response["output"]] == ["message"]
        await compacting(
            on, previous_response_id=first["id"], input="x" * 400, **beyond(total + 50)
        )


async def test_what_was_compacted_is_not_compacted_at_once_again() -> None:
    """The context of the answer counts, not what was spent on the summary."""
    async with stand() as on:
        _, first = await on.turn(input="one")
        total = first["usage"]["total_tokens"]
        *_, response = await compacting(
            on, previous_response_id=first["id"], input="x" * 400, **beyond(total + 50)
        )
        exchange, _ = await on.turn(
            previous_response_id=response["id"], input="three", **beyond(total + 50)
        )
        assert said(exchange)[-1] == "three"


@pytest.mark.parametrize("stored", [False, True])
async def test_the_backends_count_of_a_parent_is_believed(stored: bool) -> None:
    usage = {"input_tokens": 9000, "output_tokens": 1, "total_tokens": 9001}
    counted = [created(), *reply("1")[1:-1], completed(output=[message("1")], usage=usage)]
    async with stand() as on:
        _, first = await on.turn(None, counted, input="one", store=stored)
        async with connect(on.url) as other:
            on.client = other if stored else on.client
            await compacting(on, previous_response_id=first["id"], input="two", **beyond(9000))
            exchange, _ = await on.turn(
                previous_response_id=first["id"], input="two", **beyond(9100)
            )
            assert said(exchange) == ["one", "1", "two"]


async def test_without_a_count_it_is_estimated() -> None:
    history = [user("x" * 8000), {"role": "assistant", "content": "1"}, user("two")]
    async with stand() as on:
        await compacting(on, input=history, **beyond(1900))
        exchange, _ = await on.turn(input=history, **beyond(2300))
        assert len(said(exchange)) == 3


async def test_an_image_is_no_text() -> None:
    url = "data:image/png;base64," + "A" * 100_000
    image = {"role": "user", "content": [{"type": "input_image", "image_url": url}]}
    history = [image, {"role": "assistant", "content": "1"}, user("two")]
    async with stand() as on:
        exchange, _ = await on.turn(input=history, **beyond(2000))
        assert len(exchange.input) == 3


@pytest.mark.parametrize(
    "management",
    [None, [], [{"type": "other", "compact_threshold": 1}], [{"type": "compaction"}]],
)
async def test_without_a_threshold_nothing_is_compacted(management: Any) -> None:
    async with stand() as on:
        _, first = await on.turn(input="one")
        exchange, _ = await on.turn(
            previous_response_id=first["id"], input="two", context_management=management
        )
        assert said(exchange) == ["one", "ok", "two"]


async def test_messages_of_the_user_alone_are_not_compacted() -> None:
    async with stand() as on:
        exchange, _ = await on.turn(input=[user("one"), user("two")], **beyond())
        assert said(exchange) == ["one", "two"]


async def test_calls_go_on_with_their_outputs() -> None:
    tools = [{"type": "function", "name": "f", "parameters": {"type": "object"}}]
    async with stand() as on:
        _, first = await on.turn(None, call_reply("f"), input="one", tools=tools)
        output = {"type": "function_call_output", "call_id": "c1", "output": "4"}
        summary = await on.asked(
            previous_response_id=first["id"], input=[output], tools=tools, **beyond()
        )
        # All that came before the call is one message, so there is nothing to summarise.
        assert said(summary) == ["one"]
        await answer(summary)
        parent = await on.client.ended()
        _, second = await on.turn(
            None, call_reply("f", call_id="c2"), previous_response_id=parent["id"], input="two"
        )
        output = {**output, "call_id": "c2"}
        summary = await on.asked(previous_response_id=second["id"], input=[output], **beyond())
        assert told(summary)
        assert "c2" not in str(summary.input)
        await answer(summary, reply("They talked."))
        exchange = await on.fake.next()
        assert said(exchange) == ["one", "two", SUMMARY]
        assert [item["call_id"] for item in exchange.input[-2:]] == ["c2", "c2"]
        await answer(exchange)
        response = await on.client.ended()
        exchange, _ = await on.turn(previous_response_id=response["id"], input="three")
        assert said(exchange) == ["one", "two", SUMMARY, "ok", "three"]
        assert sum(item.get("call_id") == "c2" for item in exchange.input) == 2


async def test_a_summary_that_fails_fails_the_create() -> None:
    async with stand(retries=0) as on:
        _, first = await on.turn(input="one")
        summary = await on.asked(previous_response_id=first["id"], input="two", **beyond())
        await summary.reply(500, {"error": {"message": "no"}})
        error = await on.client.error()
        assert error["status"] == 500
        await on.usable()


async def test_cancelled_between_the_summary_and_the_answer() -> None:
    async with stand() as on:
        _, first = await on.turn(input="one")
        summary = await on.asked(previous_response_id=first["id"], input="two", **beyond())
        await answer(summary, reply("They talked."))
        exchange = await on.fake.next()
        await on.client.until("response.output_item.done")
        await on.client.cancel()
        response = await on.client.ended()
        assert [item["type"] for item in response["output"]] == ["compaction"]
        await exchange.hang()
        exchange, _ = await on.turn(previous_response_id=response["id"], input="three")
        assert said(exchange) == ["one", SUMMARY, "two", "three"]


async def test_what_the_summary_took_does_not_count_for_the_next_create() -> None:
    usage = {"input_tokens": 9000, "output_tokens": 1, "total_tokens": 9001}
    summary = [
        created(),
        *reply("Talked.")[1:-1],
        completed(output=[message("Talked.")], usage=usage),
    ]
    async with stand() as on:
        _, first = await on.turn(input="one")
        trigger = {"type": "compaction_trigger"}
        _, parent = await on.turn(None, summary, previous_response_id=first["id"], input=[trigger])
        assert parent["usage"]["total_tokens"] == 9001
        exchange, _ = await on.turn(previous_response_id=parent["id"], input="two", **beyond(1000))
        assert said(exchange)[-1] == "two"


def talk(*sizes: int) -> list[Event]:
    """A history of turns, each with an answer of so many bytes."""
    turns = ([user("go on"), {"role": "assistant", "content": "x" * size}] for size in sizes)
    return [item for turn in turns for item in turn]


async def test_a_summary_has_at_most_a_quarter_of_the_threshold() -> None:
    async with stand() as on:
        summary = await on.asked(input=[*talk(20_000), user("two")], **beyond(4000))
        assert said(summary)[-1] == "Use at most 400 words."
        await answer(summary, reply("y" * 3000, "z" * 3000))
        exchange = await on.fake.next()
        assert said(exchange)[1:] == [
            SUMMARY_INTRODUCTION + "y" * 3000 + "z" * 1000 + SHORTENED,
            "two",
        ]
        await answer(exchange)
        response = await on.client.ended()
        assert response["usage"] is not None
        exchange, _ = await on.turn(
            previous_response_id=response["id"], input="three", **beyond(4000)
        )
        assert said(exchange)[-1] == "three"


async def test_a_model_that_does_not_end_its_summary_is_cut_off() -> None:
    async with stand() as on:
        summary = await on.asked(input=[*talk(20_000), user("two")], **beyond(4000))
        await summary.send(*reply("y" * 3000)[:-2])
        await summary.send(*(delta("\u00e9" * 1000) for _ in range(3)))
        exchange = await on.fake.next()
        await summary.hang()
        assert said(exchange)[1] == (SUMMARY_INTRODUCTION + "y" * 3000 + "\u00e9" * 500 + SHORTENED)
        await answer(exchange)
        response = await on.client.ended()
        assert response["status"] == "completed"
        await on.usable()


async def test_what_the_user_said_has_a_quarter_of_the_threshold_too() -> None:
    history = [user("a" * 9000), user("b" * 3000), *talk(9000), user("two")]
    async with stand() as on:
        await on.client.create(input=history, **beyond(4000))
        await answer(await on.fake.next(), reply("They talked."))
        exchange = await on.fake.next()
        first, *others = said(exchange)
        assert others == ["b" * 3000, "go on", SUMMARY, "two"]
        assert 900 < len(first) < 1100
        await answer(exchange)
        await on.client.ended()


async def test_instructions_beyond_the_threshold_do_not_compact_each_turn() -> None:
    """What is new since the last summary has to be an eighth of the threshold."""
    extra = {"instructions": "x" * 20_000, **beyond(4000)}
    async with stand() as on:
        *_, response = await compacting(on, input=[*talk(100), user("two")], **extra)
        item = response["output"][0]
        for sizes in ([], [100], [900]):
            exchange, _ = await on.turn(input=[item, *talk(*sizes), user("three")], **extra)
            assert said(exchange)[-1] == "three"
        await compacting(on, input=[item, *talk(900, 1500), user("three")], **extra)
