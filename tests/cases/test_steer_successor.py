"""The successor: what it is asked for, where it runs, and what happens when there is none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.events import closed, created, delta, failed, opened
from tests.support.exchange import hung_up
from tests.support.gateway_stand import answer, user
from tests.support.steered import SETTINGS, began, begin, steered, talking, text_of, turns, typed

INHERITED = {**SETTINGS, "max_output_tokens": 64, "store": False, "x_vendor": {"a": [None]}}


@pytest.mark.parametrize("lane", ["a", None])
async def test_settings_are_inherited_value_for_value(lane: str | None) -> None:
    async with steered() as on:
        parent = await talking(on, lane, **INHERITED)
        await parent.steer()
        successor = await parent.follows()
        ours = {"input", "previous_response_id"}
        before, after = parent.exchange.body, successor.exchange.body
        assert {k: after[k] for k in after.keys() - ours} == {
            k: before[k] for k in before.keys() - ours
        }
        assert INHERITED.items() <= after.items()
        created = on.client.lane(lane)[-1]
        assert created["type"] in ("response.created", "response.in_progress")
        assert created["response"]["temperature"] == 0.5
        assert created["response"]["instructions"] == "be brief"
        await successor.finish()


async def test_the_chain_before_it_is_carried_on() -> None:
    async with steered() as on:
        _, first = await on.turn("a", input=[user("one")])
        parent = await talking(on, "a", previous_response_id=first["id"], input=[user("two")])
        await parent.steer("three")
        successor = await parent.follows()
        assert turns(successor.exchange) == [
            ("user", "one"),
            ("assistant", "ok"),
            ("user", "two"),
            ("assistant", "abc"),
            ("user", "three"),
        ]
        assert "previous_response_id" not in successor.exchange.body
        response = await successor.finish("four")
        last, _ = await on.turn("a", previous_response_id=response["id"], input=[user("five")])
        assert turns(last)[-3:] == [("user", "three"), ("assistant", "four"), ("user", "five")]


PARTS: list[Any] = [
    {"type": "input_text", "text": "a"},
    {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"},
    {"type": "input_file", "file_data": "data:,x", "filename": "x"},
    {"type": "input_text", "text": "a"},
]


async def test_b45_every_form_arrives_whole_and_in_order() -> None:
    async with steered(steer_boundary="item") as on:
        parent = await talking(on, "a", input="hi")
        await parent.steer("plain")
        await parent.steer([{"role": "user", "content": PARTS}])
        await parent.steer([{"type": "message", "role": "user", "content": "é\n\x00"}] * 2)
        await parent.send(*closed("abc"))
        await parent.ended("steered")
        successor = await parent.follows()
        steers = successor.exchange.input[2:]
        text = {"type": "input_text", "text": "plain"}
        assert steers == [
            {"type": "message", "role": "user", "content": [text]},
            {"type": "message", "role": "user", "content": PARTS},
            {"type": "message", "role": "user", "content": "é\n\x00"},
            {"type": "message", "role": "user", "content": "é\n\x00"},
        ]
        typed(successor.exchange)
        await successor.finish()


async def test_it_runs_ahead_of_what_waits_in_the_same_slot() -> None:
    async with steered(max_active=1) as on:
        parent = await talking(on, "a")
        await on.client.create("b", input="waits longest")
        await on.client.create("a", input="waits behind")
        await parent.steer()
        successor = await parent.follows()
        assert len(on.fake.exchanges) == 2
        assert ("user", "steer") in turns(successor.exchange)
        await successor.finish()
        for lane, text in (("b", "waits longest"), ("a", "waits behind")):
            waited = await began(on, lane)
            assert turns(waited.exchange) == [("user", text)]
            await waited.finish()


async def test_successors_are_steered_in_turn() -> None:
    async with steered() as on:
        running = await talking(on, "a", "t0", input="hi")
        expected = [("user", "hi")]
        for turn in range(1, 6):
            await running.steer(f"s{turn}")
            await running.ended("steered")
            running = await running.follows()
            expected += [("assistant", f"t{turn - 1}"), ("user", f"s{turn}")]
            assert turns(running.exchange) == expected
            await running.send(*opened())
            await running.says(f"t{turn}")
        await hung_up(*on.fake.exchanges[:-1])


async def test_lanes_keep_their_steers_to_themselves() -> None:
    async with steered() as on:
        lanes: list[str | None] = ["a", "b", None]
        parents = [await talking(on, lane, f"t-{lane}", input=f"q-{lane}") for lane in lanes]
        for parent in parents:
            await on.client.steer(parent.id, f"s-{parent.lane}")
        for _ in lanes:
            exchange = await on.fake.next()
            (_, asked), *rest = turns(exchange)
            lane = asked.removeprefix("q-")
            assert rest == [("assistant", f"t-{lane}"), ("user", f"s-{lane}")]
            await answer(exchange)
        for parent in parents:
            await on.client.until("response.completed", lane=parent.lane)


@pytest.mark.parametrize("how", ["failed", "cut"])
async def test_a_parent_that_fails_returns_its_steers(how: str) -> None:
    async with steered(steer_boundary="item") as on:
        parent = await talking(on, "a")
        steers = [await parent.steer("s1"), await parent.steer([user("s2")])]
        if how == "failed":
            await parent.exchange.send(failed())
        else:
            parent.exchange.cut()
        seen = await on.client.until("response.failed", lane="a")
        assert text_of(seen[-1]["response"]["output"][0]) == "abc"
        events = await parent.failed(*steers)
        assert [e["steer"]["input"] for e in events] == ["s1", [user("s2")]]
        assert {e["error"]["code"] for e in events} == {"successor_creation_failed"}
        assert (await parent.refused())["code"] == "response_not_active"
        await on.usable("a")


@pytest.mark.parametrize("how", [400, 500, 429, "silence", "reset", "gone"])
async def test_a_successor_that_is_refused_returns_its_steers(how: int | str) -> None:
    async with steered(retries=0, first_byte_timeout=0.8, max_active=1) as on:
        parent = await talking(on, "a")
        await on.client.create("a", input="next")
        steers = [await parent.steer("s1")]
        await parent.ended("steered")
        exchange = await on.fake.next()
        if isinstance(how, int):
            await exchange.reply(how, {"error": {"message": "no", "type": "t", "code": "c"}})
        elif how == "reset":
            exchange.reset()
        elif how == "gone":
            await exchange.end()
        [event] = await parent.failed(*steers)
        assert event["error"]["code"] == "successor_creation_failed"
        assert event["steer"]["input"] == "s1"
        after = await began(on, "a")
        assert turns(after.exchange) == [("user", "next")]
        await after.finish()
        assert "error" not in [e["type"] for e in on.client.transcript]


async def test_after_a_refused_successor_the_client_goes_on_by_itself() -> None:
    async with steered() as on:
        parent = await talking(on, "a", "abc", input="hi")
        steer = await parent.steer("s1")
        await (await on.fake.next()).reply(500, {"error": {"message": "no"}})
        [event] = await parent.failed(steer)
        again, _ = await on.turn("a", previous_response_id=parent.id, input=event["steer"]["input"])
        assert turns(again) == [("user", "hi"), ("assistant", "abc"), ("user", "s1")]


async def test_a_successor_that_cannot_connect_returns_its_steers() -> None:
    async with steered(retries=0) as on:
        parent = await talking(on, "a")
        on.fake.refuse()
        steer = await parent.steer("s1")
        [event] = await parent.failed(steer)
        assert event["error"]["code"] == "successor_creation_failed"


async def test_a_successor_that_fails_after_its_beginning_has_taken_its_steers() -> None:
    async with steered() as on:
        parent = await talking(on, "a")
        await parent.steer("s1")
        successor = await parent.follows()
        await successor.exchange.send(*opened(), delta("x"), failed())
        await on.client.until("response.failed", lane="a")
        await on.usable("a")
        assert "response.steer.failed" not in [e["type"] for e in on.client.transcript]


async def test_an_upstream_that_says_the_same_ids_again() -> None:
    async with steered() as on:
        parent = await begin(on, "a", *opened(), delta("abc"))
        await on.client.until("response.output_text.delta", lane="a")
        await parent.steer()
        successor = await parent.follows()
        await successor.exchange.send(created("r1"))
        response = await successor.finish("def")
        assert text_of(response["output"][0]) == "def"
