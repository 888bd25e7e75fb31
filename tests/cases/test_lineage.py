"""protocol.md 3: what may be continued, by whom, and what a failure forgets."""

from __future__ import annotations

import pytest

from tests.support.client import connect
from tests.support.events import completed, created, delta, incomplete, message, opened, reply
from tests.support.gateway_stand import answer, not_found, said, stand, user


async def test_b59_input_as_string_list_empty_or_absent() -> None:
    async with stand() as on:
        first, one = await on.turn("a", reply("1"), input="hi")
        assert [item["role"] for item in first.input] == ["user"]
        _, two = await on.turn("a", reply("2"), input=[user("x")], previous_response_id=one["id"])
        _, three = await on.turn("a", reply("3"), input=[], previous_response_id=two["id"])
        frame = {"type": "response.create", "model": "m", "previous_response_id": three["id"]}
        await on.client.send(frame)
        last = await on.fake.next()
        assert said(last) == ["hi", "1", "x", "2", "3"]
        await answer(last)
        assert (await on.client.ended(None))["status"] == "completed"


@pytest.mark.parametrize("lane", ["a", None])
async def test_b63_an_unknown_parent_has_its_exact_error(lane: str | None) -> None:
    async with stand() as on:
        not_found(await on.refused(lane, previous_response_id="resp_x"), "resp_x")
        exchange, response = await on.turn(lane, previous_response_id=None)
        assert response["status"] == "completed"
        assert "previous_response_id" not in exchange.body


@pytest.mark.parametrize("parent", ["", "r1", "resp_\u00e9'\"", "x" * 5000])
async def test_b63_any_string_is_only_unknown(parent: str) -> None:
    async with stand() as on:
        await on.turn("a")
        not_found(await on.refused("a", previous_response_id=parent), parent)


async def test_a_parent_in_progress_is_nobodys_on_another_lane_but_legal_on_its_own() -> None:
    async with stand() as on:
        exchange = await on.asked("a", input="one")
        await exchange.send(created())
        running = (await on.client.until("response.in_progress"))[-1]["response"]["id"]
        not_found(await on.refused("b", previous_response_id=running), running)
        await on.client.create("a", previous_response_id=running, input="two")
        await answer(exchange, [completed("r1", [message("ok")])])
        following = await on.fake.next()
        assert said(following) == ["one", "ok", "two"]
        await answer(following)


async def test_a_parent_is_looked_up_at_the_start_not_at_arrival() -> None:
    async with stand() as on:
        parent = await on.asked("a", input="one")
        await parent.send(created())
        running = (await on.client.until("response.in_progress"))[-1]["response"]["id"]
        blocker = await on.asked("b")
        await on.client.create("b", previous_response_id=running, input="waits for its lane")
        await answer(parent, [completed("r1", [message("ok")])])
        await on.client.ended("a")
        await answer(blocker)
        fork = await on.fake.next()
        assert said(fork) == ["one", "ok", "waits for its lane"]
        await answer(fork)


async def test_a_parent_evicted_before_the_start_is_gone() -> None:
    async with stand() as on:
        _, root = await on.turn("a")
        blocker = await on.asked("b")
        await on.client.create("b", previous_response_id=root["id"])
        failing = await on.asked("a", previous_response_id=root["id"])
        await failing.reply(500, {})
        await on.client.error("a")
        await answer(blocker)
        not_found(await on.client.error("b"), root["id"])


@pytest.mark.parametrize("text", ["", "cut off"])
async def test_incomplete_and_empty_responses_are_parents(text: str) -> None:
    body = [*opened(), delta(text)] if text else []
    async with stand() as on:
        _, partial = await on.turn("a", [created(), *body, incomplete()], input="q")
        assert partial["status"] == "incomplete"
        following, _ = await on.turn("b", previous_response_id=partial["id"], input="go on")
        assert said(following) == ["q", *([text] if text else []), "go on"]
        _, empty = await on.turn("a", [created(), completed()], input="e")
        following, _ = await on.turn("b", previous_response_id=empty["id"], input="f")
        assert said(following) == ["e", "f"]


@pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_1"}])
async def test_a_conversation_goes_alone(conversation: object) -> None:
    async with stand() as on:
        _, root = await on.turn("a")
        refused = await on.refused("a", previous_response_id=root["id"], conversation=conversation)
        assert refused["error"]["param"] == "conversation"
        exchange, response = await on.turn("a", conversation=conversation, store=True)
        assert exchange.body["conversation"] == conversation
        assert response["conversation"] == {"id": "conv_1"}
        exchange, _ = await on.turn("a", conversation=None, previous_response_id=root["id"])
        assert exchange.body["conversation"] is None


async def test_instructions_are_not_inherited_and_settings_neither() -> None:
    async with stand() as on:
        _, root = await on.turn("a", instructions="pirate", temperature=0.1, metadata={"k": "v"})
        exchange, response = await on.turn("a", previous_response_id=root["id"])
        assert exchange.body.keys() == {"model", "input", "stream", "store"}
        assert response["instructions"] is None
        assert response["metadata"] == {}


async def test_a_new_chain_on_a_used_lane_is_empty() -> None:
    async with stand() as on:
        await on.turn("a", input="old")
        exchange, response = await on.turn("a", input="new")
        assert said(exchange) == ["new"]
        assert response["previous_response_id"] is None


async def test_ids_of_one_connection_mean_nothing_on_another() -> None:
    async with stand() as on, connect(on.url) as other:
        _, root = await on.turn("a")
        await other.create("a", previous_response_id=root["id"])
        not_found(await other.error("a"), root["id"])
