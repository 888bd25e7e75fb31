"""field-cases.md 6: where a running response may stop for a steer, and what is left of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.events import (
    closed,
    completed,
    delta,
    event,
    incomplete,
    item_added,
    item_done,
    opened,
)
from tests.support.exchange import hung_up
from tests.support.gateway_stand import user
from tests.support.steered import begin, reasoning, steered, talking, text_of, turns, typed

SEARCH: dict[str, Any] = {
    "id": "ws1",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "q", "queries": ["q"]},
}
_BUSY = {"status": "in_progress"}


@pytest.mark.parametrize("lane", ["a", None])
async def test_a_text_stops_between_two_deltas(lane: str | None) -> None:
    async with steered() as on:
        parent = await talking(on, lane, "one ", "two ", input=[user("hi")])
        await parent.steer("no, three")
        seen = await on.client.until("response.incomplete", lane=lane)
        assert [e["type"].removeprefix("response.") for e in seen] == [
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "incomplete",
        ]
        response = seen[-1]["response"]
        assert response["incomplete_details"] == {"reason": "steered"}
        assert (response["completed_at"], response["error"]) == (None, None)
        [item] = response["output"]
        assert (item["status"], text_of(item)) == ("incomplete", "one two ")
        successor = await parent.follows()
        await hung_up(parent.exchange)
        assert turns(successor.exchange) == [
            ("user", "hi"),
            ("assistant", "one two "),
            ("user", "no, three"),
        ]
        assert successor.exchange.input[1]["content"] == item["content"]
        assert successor.exchange.input[1]["status"] == "incomplete"
        await successor.finish()


async def test_what_the_upstream_still_says_after_the_cut_goes_nowhere() -> None:
    async with steered() as on:
        parent = await talking(on, "a", "one ")
        await parent.steer()
        await parent.ended("steered")
        successor = await parent.follows()
        await hung_up(parent.exchange)
        with pytest.raises(ConnectionError):
            await parent.exchange.send(delta("late"))
        await successor.finish("next")
        assert "late" not in str(on.client.transcript)


async def test_b39_accepted_while_deltas_still_flow() -> None:
    async with steered(steer_boundary="item") as on:
        parent = await talking(on, "a", "1", "2", "3")
        await parent.steer()
        await parent.says("4", "5", "6")
        await parent.send(*closed("123456"))
        response = await parent.ended("steered")
        assert response["output"][0]["status"] == "completed"
        successor = await parent.follows()
        await hung_up(parent.exchange)
        assert turns(successor.exchange)[1:] == [("assistant", "123456"), ("user", "steer")]
        await successor.finish()


async def test_b39_neither_full_lanes_nor_a_slow_upstream_hold_a_steer_up() -> None:
    async with steered(max_active=2, steer_boundary="item") as on:
        await on.client.create("slow")
        slow = await on.fake.next()  # says nothing at all
        parent = await talking(on, "a")
        for lane in ("a", "a", "b", "c"):
            await on.client.create(lane, input="waits")
        await parent.steer()
        await parent.says("on")
        await parent.send(*closed("abcon"))
        await parent.ended("steered")
        await (await parent.follows()).finish()
        assert not slow.closed.is_set()


async def test_b46_terminal_relayed_text_and_replay_agree() -> None:
    chunks = [*opened(), delta("done"), *closed("done"), item_added(SEARCH | _BUSY, 1)]
    chunks += [item_done(SEARCH, 1), *opened("m2", 2), delta("ab", "m2", 2)]
    async with steered() as on:
        parent = await begin(on, "a", *chunks, input=[user("hi")])
        await parent.send(delta("c", "m2", 2))
        for _ in range(3):
            await on.client.until("response.output_text.delta", lane="a")
        await parent.steer("s1")
        response = await parent.ended("steered")
        successor = await parent.follows()
        kinds = ["message", "web_search_call", "message"]
        assert [item["type"] for item in response["output"]] == kinds
        assert turns(successor.exchange) == [
            ("user", "hi"),
            ("assistant", "done"),
            ("web_search_call", ""),
            ("assistant", "abc"),
            ("user", "s1"),
        ]
        streamed = [e["delta"] for e in on.client.lane("a") if e["type"].endswith("text.delta")]
        assert "".join(streamed) == "doneabc"
        assert text_of(response["output"][2]) == "abc"
        await successor.finish()


async def test_a_cut_before_anything_was_said() -> None:
    async with steered() as on:
        parent = await begin(on, "a", input="hi")
        await parent.steer("other")
        assert (await parent.ended("steered"))["output"] == []
        successor = await parent.follows()
        assert turns(successor.exchange) == [("user", "hi"), ("user", "other")]
        typed(successor.exchange)
        await successor.finish()


async def test_an_empty_message_is_closed_and_not_replayed() -> None:
    async with steered() as on:
        parent = await begin(on, "a", *opened(), input="hi")
        await on.client.until("response.content_part.added", lane="a")
        await parent.steer("other")
        [item] = (await parent.ended("steered"))["output"]
        assert item["status"] == "incomplete"
        successor = await parent.follows()
        assert turns(successor.exchange) == [("user", "hi"), ("user", "other")]
        await successor.finish()


@pytest.mark.parametrize("boundary", ["text", "item"])
async def test_between_two_items_it_stops_at_once(boundary: str) -> None:
    async with steered(steer_boundary=boundary) as on:
        parent = await begin(on, "a", *opened(), delta("done"), *closed("done"))
        await on.client.until("response.output_item.done", lane="a")
        await parent.steer()
        assert (await parent.ended("steered"))["output"][0]["status"] == "completed"
        successor = await parent.follows()
        assert turns(successor.exchange)[1:] == [("assistant", "done"), ("user", "steer")]
        await successor.finish()


async def test_reasoning_in_the_clear_stops_and_is_not_replayed() -> None:
    async with steered() as on:
        parent = await begin(on, "a", *reasoning("hm, well"))
        await on.client.until("response.reasoning_text.delta", lane="a")
        await parent.steer()
        [item] = (await parent.ended("steered"))["output"]
        assert (item["type"], text_of(item)) == ("reasoning", "hm, well")
        successor = await parent.follows()
        await hung_up(parent.exchange)
        assert turns(successor.exchange) == [("user", "hi"), ("user", "steer")]
        await successor.finish()


async def test_encrypted_reasoning_is_finished_first() -> None:
    sealed = {"id": "rs1", "type": "reasoning", "summary": [], "encrypted_content": "gA=="}
    async with steered() as on:
        parent = await begin(on, "a", item_added(sealed))
        await on.client.until("response.output_item.added", lane="a")
        await parent.steer()
        place = {"item_id": "rs1", "output_index": 0, "summary_index": 0}
        summary = event("response.reasoning_summary_text.delta", **place, delta="so")
        await parent.send(summary, until="response.reasoning_summary_text.delta")
        part = {"type": "summary_text", "text": "so"}
        await parent.send(item_done({**sealed, "summary": [part]}))
        [item] = (await parent.ended("steered"))["output"]
        assert item["encrypted_content"] == "gA=="
        successor = await parent.follows()
        # What it was to be followed by is missing, so no backend would take it back.
        assert turns(successor.exchange) == [("user", "hi"), ("user", "steer")]
        await successor.finish()


@pytest.mark.parametrize("boundary", ["text", "item"])
async def test_what_finishes_first_stays_completed_and_is_followed(boundary: str) -> None:
    async with steered(steer_boundary=boundary) as on:
        parent = await begin(on, "a", item_added(SEARCH | _BUSY))
        await on.client.until("response.output_item.added", lane="a")
        await parent.steer("s1")
        await parent.steer("s2")
        await parent.exchange.send(completed("r1", [SEARCH]))
        await parent.exchange.end()
        response = await parent.ended()
        assert response["output"][0]["status"] == "completed"
        successor = await parent.follows()
        assert turns(successor.exchange)[1:] == [
            ("web_search_call", ""),
            ("user", "s1"),
            ("user", "s2"),
        ]
        await successor.finish()


@pytest.mark.parametrize("reason", ["max_output_tokens", "content_filter"])
async def test_a_response_cut_short_by_its_limit_is_followed(reason: str) -> None:
    async with steered(steer_boundary="item") as on:
        parent = await talking(on, "a", "abc", max_output_tokens=16)
        await parent.steer()
        await parent.exchange.send(incomplete(reason=reason))
        await parent.exchange.end()
        [item] = (await parent.ended(reason))["output"]
        assert item["status"] == "incomplete"
        successor = await parent.follows()
        assert turns(successor.exchange)[1:] == [("assistant", "abc"), ("user", "steer")]
        assert successor.exchange.body["max_output_tokens"] == 16
        await successor.finish()
