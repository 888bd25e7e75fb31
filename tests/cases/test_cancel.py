"""`response.cancel`: what runs ends here and now, what waits never starts (protocol.md 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from lanes.history.archive import KeyArchive
from tests.support import conversations
from tests.support.calling import OUTPUT, called_out, calling
from tests.support.clerk_log import log_clerk
from tests.support.events import (
    called,
    closed,
    completed,
    created,
    delta,
    in_progress,
    item_added,
    message,
    opened,
    reply,
)
from tests.support.exchange import hung_up
from tests.support.gateway_stand import answer, said, stand
from tests.support.raw_client import TEXT, frame, raw
from tests.support.steered import Running, begin, reasoning, steered, talking, turns
from tests.support.wire_stand import shape, standing

if TYPE_CHECKING:
    from tests.support.client import Event
    from tests.support.gateway_stand import Stand

#: Seconds within which the upstream call has to end.
SOON = 0.1
SEARCH: dict[str, Any] = {"id": "ws1", "type": "web_search_call", "status": "in_progress"}
SEARCH |= {"action": {"type": "search", "query": "q", "queries": ["q"]}}
ANSWER = [created(), in_progress(), *reasoning("why"), *opened(index=1), delta("abc", index=1)]
ANSWER += [*closed("abc", index=1), *called("w", index=2), *opened("m2", 3), delta("d", "m2", 3)]


async def over(running: Running, within: float = SOON) -> Event:
    """The cancelled response ended as it should, and so did its upstream call."""
    await hung_up(running.exchange, within=within)
    return await running.ended("cancelled")


async def quiet(on: Stand, lane: str | None = None) -> None:
    """Nothing was said about a cancel: the next event is the next turn's."""
    exchange = await on.asked(lane, input="next")
    await answer(exchange)
    assert (await on.client.event(lane))["type"] == "response.created"
    await on.client.ended(lane)


async def slowly_steered(on: Stand, monkeypatch: pytest.MonkeyPatch) -> tuple[Running, anyio.Event]:
    """A response with a steer, and what the record of that steer waits for."""
    gate = anyio.Event()
    log_clerk(monkeypatch, gate)
    running = await talking(on, "a")
    await on.client.steer(running.id, "x")
    return running, gate


@pytest.mark.parametrize("how", ["id", "lane", "only"])
async def test_what_runs_ends_with_the_output_so_far(how: str) -> None:
    async with stand() as on:
        running = await talking(on, "a", "abc", "def")
        names = {"id": {"response_id": running.id}, "lane": {"stream_id": "a"}, "only": {}}[how]
        await on.client.cancel(**names)
        response = await over(running)
        [item] = response["output"]
        assert item["status"] == "incomplete"
        assert item["content"][0]["text"] == "abcdef"
        exchange, _ = await on.turn("a", previous_response_id=running.id, input="why?")
        assert turns(exchange) == [("user", "hi"), ("assistant", "abcdef"), ("user", "why?")]


@pytest.mark.parametrize("sent", range(len(ANSWER) + 1))
async def test_at_any_point_of_an_answer_the_next_turn_is_clean(sent: int) -> None:
    async with stand() as on:
        exchange = await on.asked()
        await exchange.send(*ANSWER[:sent])
        if sent:
            await on.client.until("response.created")
        await on.client.cancel()
        response = await on.client.ended()
        assert response["incomplete_details"] == {"reason": "cancelled"}
        await hung_up(exchange, within=SOON)
        await quiet(on)


async def test_before_the_backend_answers_it_begins_and_ends() -> None:
    async with stand() as on:
        _, parent = await on.turn("a", input="first")
        exchange = await on.asked("a", input="second", previous_response_id=parent["id"])
        await on.client.cancel(stream_id="a")
        seen = await on.client.until("response.incomplete", lane="a")
        kinds = [event["type"].removeprefix("response.") for event in seen]
        assert kinds == ["created", "in_progress", "incomplete"]
        assert seen[-1]["response"]["output"] == []
        await hung_up(exchange, within=SOON)
        child = seen[-1]["response"]["id"]
        exchange, _ = await on.turn("a", previous_response_id=child, input="third")
        assert said(exchange) == ["first", "ok", "second", "third"]


@pytest.mark.parametrize("item", ["call", "sealed", "hosted"])
async def test_it_does_not_wait_for_a_boundary(item: str) -> None:
    sealed = {"id": "rs1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    chunks = {"call": called("w", '{"a":1}')[:2], "sealed": [item_added(sealed)]}
    chunks["hosted"] = [item_added(SEARCH)]
    async with stand() as on:
        running = await begin(on, None, *chunks[item])
        await on.client.until("response.output_item.added")
        await on.client.cancel(response_id=running.id)
        response = await over(running)
        assert [one["status"] for one in response["output"]] == ["incomplete"]
        exchange, _ = await on.turn(previous_response_id=running.id, input="why?")
        assert turns(exchange) == [("user", "hi"), ("user", "why?")]


async def test_a_finished_call_may_still_be_answered() -> None:
    async with stand() as on:
        running = await begin(on, None, *called("w"), *opened(index=1))
        await on.client.until("response.output_item.done")
        await on.client.cancel(response_id=running.id)
        await over(running)
        exchange, _ = await on.turn(previous_response_id=running.id, input=[OUTPUT])
        assert turns(exchange)[1:] == [("function_call", "c1"), ("function_call_output", "c1")]


@pytest.mark.parametrize(
    "names",
    [
        {"response_id": "resp_" + "0" * 32},
        {"response_id": ""},
        {"stream_id": "never"},
        {"stream_id": "idle"},
        {},
        {"response_id": None, "stream_id": None, "event_id": "event_1"},
    ],
)
async def test_nothing_to_cancel_is_silence(names: dict[str, Any]) -> None:
    async with stand() as on:
        await on.turn("idle")
        await on.client.cancel(**names)
        await quiet(on)


@pytest.mark.parametrize("how", ["completed", "failed", "cancelled"])
async def test_what_is_over_is_silence(how: str) -> None:
    async with stand() as on:
        running = await talking(on)
        if how == "completed":
            await running.exchange.send(*closed("abc"), completed(output=[message("abc")]))
            await running.exchange.end()
        elif how == "failed":
            running.exchange.cut()
        else:
            await on.client.cancel(response_id=running.id)
        await on.client.ended()
        await on.client.cancel(response_id=running.id)
        await on.client.cancel()
        await quiet(on)


async def test_which_of_two_is_not_guessed() -> None:
    async with stand() as on:
        first, second = await talking(on, "a"), await talking(on, "b")
        await on.client.cancel()
        await first.says("on")
        await second.says("on")
        await on.client.cancel(stream_id="b")
        await over(second)
        await on.client.cancel()
        await over(first)


async def test_what_waits_on_a_lane_never_starts() -> None:
    async with stand() as on:
        running = await talking(on, "a")
        other = await talking(on, "b")
        for number in range(3):
            await on.client.create("a", input=f"waits {number}")
        await on.client.cancel(stream_id="a")
        await on.client.create("a", input="after")
        await over(running)
        for _ in range(3):
            event = await on.client.event("a")
            assert shape(event) == ("cancelled", 499, None, "a")
            assert event["error"]["type"] == "invalid_request_error"
        exchange = await on.fake.next()
        assert said(exchange) == ["after"]
        await answer(exchange)
        await on.client.ended("a")
        await other.says("on")
        await on.client.cancel(stream_id="b")
        await over(other)


async def test_what_waits_for_a_slot_is_taken_back() -> None:
    async with stand(max_active=1) as on:
        running = await talking(on, "a")
        await on.client.create("b")
        await on.client.create("c", input="c")
        await on.client.cancel(stream_id="b")
        assert (await on.client.error("b"))["error"]["code"] == "cancelled"
        await running.says("on")
        await on.client.cancel(stream_id="a")
        await over(running)
        exchange = await on.fake.next()
        assert said(exchange) == ["c"]
        await answer(exchange)
        await on.client.ended("c")


async def test_what_waits_for_the_store_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, find, asked = anyio.Event(), KeyArchive.find, anyio.Event()

    async def finding(self: KeyArchive, response_id: str) -> Any:
        asked.set()
        await gate.wait()
        return await find(self, response_id)

    monkeypatch.setattr(KeyArchive, "find", finding)
    async with stand() as on:
        await on.client.create("a", previous_response_id="resp_" + "f" * 32)
        await asked.wait()
        await on.client.cancel(stream_id="a")
        assert shape(await on.client.event("a")) == ("cancelled", 499, None, "a")
        gate.set()
        await on.usable("a")


async def test_frames_that_arrive_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read at once, so that the create is cancelled in the moment in which it starts."""
    for reader in ("connection", "socket"):  # on a busy machine they would be read in two turns
        monkeypatch.setattr(f"gateway.client.{reader}.SHARE", 60.0)
    async with standing() as wire, raw(wire.port) as client:
        create = {"type": "response.create", "model": "m", "input": "hi", "stream_id": "a"}
        frames = [create, {"type": "response.cancel", "stream_id": "a"}, {**create, "input": "2"}]
        await client.write(b"".join(frame(one) for one in frames))
        answered = (await client.until(TEXT))[-1]
        assert shape(answered.event) == ("cancelled", 499, None, "a")
        exchange = await wire.fake.next()
        assert said(exchange) == ["2"]


async def test_a_lane_that_was_cancelled_gets_no_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its response is over, and only the record of its steer is waited for."""
    async with steered() as on:
        running, gate = await slowly_steered(on, monkeypatch)
        await running.exchange.send(*closed("abc"), completed(output=[message("abc")]))
        await running.exchange.end()
        await running.ended()
        await on.client.cancel(stream_id="a")
        await (await on.asked("b")).reply(400, {"error": {"message": "no"}})
        await on.client.error("b")  # so the cancel was read
        gate.set()
        seen = await on.client.until("response.steer.failed", lane="a")
        assert [event["type"] for event in seen][:1] == ["response.steer.accepted"]
        assert len(on.fake.exchanges) == 2
        await on.usable("a")


async def test_steers_that_wait_come_back() -> None:
    async with steered() as on:
        running = await begin(on, "a", item_added(SEARCH))
        steers = [await running.steer("one"), await running.steer("two")]
        await on.client.cancel(stream_id="a")
        await over(running)
        for event in await running.failed(*steers):
            assert event["error"]["code"] == "successor_creation_failed"
            assert "was cancelled" in event["error"]["message"]
        assert (await running.refused("late"))["code"] == "response_not_active"
        await on.usable("a")


async def test_a_steer_whose_record_is_slow_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async with steered() as on:
        running, gate = await slowly_steered(on, monkeypatch)
        await on.client.cancel(response_id=running.id)
        await over(running)
        gate.set()
        event = (await on.client.until("response.steer.failed", lane="a"))[-1]
        assert event["error"]["code"] == "response_not_active"
        assert event["steer"]["input"] == "x"
        await on.usable("a")


async def test_a_successor_can_be_cancelled_by_its_lane() -> None:
    async with steered() as on:
        parent = await talking(on, "a")
        await parent.steer("go left")
        await parent.ended("steered")
        exchange = await on.fake.next()
        await on.client.cancel(stream_id="a")
        response = await on.client.ended("a")
        assert response["previous_response_id"] == parent.id
        assert response["incomplete_details"] == {"reason": "cancelled"}
        await hung_up(exchange, within=SOON)
        exchange, _ = await on.turn("a", previous_response_id=response["id"], input="on")
        assert said(exchange) == ["hi", "abc", "go left", "on"]


async def test_a_cancelled_answer_to_a_call_has_taken_its_steers() -> None:
    async with steered() as on:
        running = await calling(on)
        steer = await running.steer("s1")
        await on.client.create("a", previous_response_id=running.id, input=[OUTPUT])
        await called_out(running)
        exchange = await on.fake.next()
        assert said(exchange) == ["hi", "s1"]
        await on.client.cancel(stream_id="a")
        response = await on.client.ended("a")
        assert response["previous_response_id"] == running.id
        assert on.client.judge is not None
        assert on.client.judge.steers.steers[steer].fate == "committed"


async def test_the_answer_to_a_call_is_cancelled_while_it_waits() -> None:
    async with steered() as on:
        running = await calling(on)
        await on.client.create("a", input="in between")
        await on.client.create("a", previous_response_id=running.id, input=[OUTPUT])
        steer = await running.steer("s1")
        await called_out(running)
        between = await on.fake.next()
        await on.client.cancel(stream_id="a")
        assert (await on.client.error("a"))["error"]["code"] == "cancelled"
        await running.pending(steer)
        await hung_up(between, within=SOON)
        exchange = await on.asked("a", previous_response_id=running.id, input=[OUTPUT])
        assert said(exchange) == ["hi", "s1"]
        await answer(exchange, reply("ok"))
        await on.client.until("response.completed", lane="a")


async def test_a_cancelled_response_is_stored() -> None:
    async with stand(cache_bytes=0) as on:
        running = await talking(on, "a", store=True)
        await on.client.cancel(response_id=running.id)
        await over(running)
        await on.turn("a")  # the lane's latest is another now, so that one is nowhere but stored
        exchange, _ = await on.turn("b", previous_response_id=running.id)
        assert said(exchange) == ["hi", "abc", "hi"]


@pytest.mark.parametrize(
    ("names", "code", "param"),
    [
        ({"response_id": 1}, "invalid_type", "response_id"),
        ({"response_id": ["r"]}, "invalid_type", "response_id"),
        ({"stream_id": "no lane"}, "invalid_stream_id", "stream_id"),
        ({"stream_id": ""}, "invalid_stream_id", "stream_id"),
        ({"stream_id": 7}, "invalid_stream_id", "stream_id"),
    ],
)
async def test_a_name_of_the_wrong_kind(names: dict[str, Any], code: str, param: str) -> None:
    async with stand() as on:
        running = await talking(on)
        await on.client.cancel(**names)
        assert shape(await on.client.event()) == (code, 400, param, None)
        await running.says("on")
        await on.client.cancel(response_id=running.id)
        await over(running)


async def test_a_continuation_that_is_cancelled_keeps_its_parent() -> None:
    async with stand() as on:
        _, parent = await on.turn("a")
        exchange = await on.asked("a", previous_response_id=parent["id"])
        await on.client.cancel(stream_id="a")
        await on.client.ended("a")
        await hung_up(exchange, within=SOON)
        assert await on.known(parent["id"], "a")


@pytest.mark.parametrize("answered", [True, False])
async def test_a_cancelled_turn_of_a_conversation_is_added_to_it(answered: bool) -> None:
    async with stand() as on:
        name = await conversations.begin(on)
        exchange = await on.asked("a", conversation=name, input="one")
        if answered:
            await exchange.send(created(), in_progress(), *opened(), delta("abc"))
            await on.client.until("response.output_text.delta", lane="a")
        await on.client.cancel(stream_id="a")
        response = await on.client.ended("a")
        assert response["incomplete_details"] == {"reason": "cancelled"}
        await hung_up(exchange, within=SOON)
        added = ["one", "abc"] if answered else ["one"]
        assert await conversations.texts(on, name) == added
        exchange, _ = await on.turn("b", conversation=name, input="two")
        assert said(exchange) == [*added, "two"]
