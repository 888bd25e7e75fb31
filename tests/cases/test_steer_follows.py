"""A steer that names a response which was steered before finds the live end of its chain."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.calling import OUTPUT, STUB
from tests.support.client import connect
from tests.support.events import (
    called,
    closed,
    completed,
    created,
    failed,
    in_progress,
    incomplete,
    message,
    opened,
)
from tests.support.gateway_stand import answer
from tests.support.http_client import requested
from tests.support.steered import Running, began, steered, talking, turns


async def record(parent: Running, steer: str) -> dict[str, Any]:
    """What the gateway says of a steer; it is listed under each response that it is of."""
    async with requested(parent.on.url, "GET", f"/steers/{steer}") as told:
        shown: dict[str, Any] = await told.json()
    of = {shown["previous_response_id"], shown["effective_response_id"]} - {None}
    for response in of:
        async with requested(parent.on.url, "GET", f"/responses/{response}/steers") as told:
            assert shown in (await told.json())["data"]
    return shown


async def test_one_that_runs_is_steered_whatever_hops_there_are() -> None:
    async with steered() as on:
        first = last = await talking(on, "a", "t0", input="hi")
        expected = [("user", "hi"), ("assistant", "t0")]
        for turn in range(1, 5):
            effective = None if last is first else last.id
            steer = await first.steer(f"s{turn}", effective=effective)
            await last.ended("steered")
            before, last = last, await last.follows()
            expected.append(("user", f"s{turn}"))
            assert turns(last.exchange) == expected
            shown = await record(first, steer)
            assert shown["previous_response_id"] == first.id
            assert shown["effective_response_id"] == effective
            assert (shown["state"], shown["successor_id"]) == ("committed", last.id)
            await last.send(*opened())
            await last.says(f"t{turn}")
            expected.append(("assistant", f"t{turn}"))
            first = first if turn < 3 else before
        await last.send(*closed("t4"), completed(output=[message("t4")]))


async def test_those_that_come_before_the_successor_begins_cut_it_once() -> None:
    async with steered() as on:
        first = await talking(on, "a")
        await first.steer("s1")
        await first.ended("steered")
        exchange = await on.fake.next()
        late = [await first.steer("s2"), await first.steer("s3")]
        assert (await record(first, late[0]))["effective_response_id"] is None
        await exchange.send(created("r2"), in_progress("r2"), *opened())
        seen = await on.client.until("response.incomplete", lane="a")
        kinds = [event["type"] for event in seen]
        assert kinds == ["response.created", "response.in_progress", "response.incomplete"]
        second = Running(on, on.client, "a", exchange, seen[-1]["response"]["id"])
        assert seen[-1]["response"]["incomplete_details"] == {"reason": "steered"}
        third = await second.follows()
        assert turns(third.exchange)[2:] == [("user", "s1"), ("user", "s2"), ("user", "s3")]
        for steer in late:
            shown = await record(first, steer)
            assert shown["effective_response_id"] == second.id
            assert shown["successor_id"] == third.id
        await third.finish()


async def test_one_that_waits_for_its_client_takes_them_pending() -> None:
    async with steered() as on:
        first = await talking(on, "a")
        await first.steer("s1")
        second = await first.follows()
        await second.exchange.send(*called("w"), completed())
        await second.ended()
        late = await first.steer("s2", effective=second.id)
        assert await second.pending(late) == [STUB]
        told = on.client.lane("a")[-1]
        assert told["steer"] == {"id": late, "previous_response_id": second.id}
        assert (await record(first, late))["state"] == "pending"
        await on.client.create("a", previous_response_id=second.id, input=[OUTPUT])
        third = await began(on, "a")
        assert turns(third.exchange)[-2:] == [("user", "s2"), ("function_call_output", "c1")]
        assert (await record(first, late))["successor_id"] == third.id
        await third.finish()


@pytest.mark.parametrize("how", ["completed", "failed", "incomplete", "cancelled"])
async def test_one_that_is_over_says_so(how: str) -> None:
    async with steered() as on:
        first = await talking(on, "a")
        await first.steer("s1")
        second = await first.follows()
        ends = {"completed": completed(), "failed": failed(), "incomplete": incomplete()}
        if how == "cancelled":
            await on.client.cancel(response_id=second.id)
        else:
            await second.exchange.send(ends[how])
        await on.client.ended("a")
        over = "response_already_completed" if how == "completed" else "response_not_active"
        assert (await first.refused("s2"))["code"] == over
        await on.usable("a")


@pytest.mark.parametrize("how", ["refused", "cancelled"])
async def test_one_that_cannot_be_created_gives_back_all(how: str) -> None:
    async with steered(retries=0) as on:
        first = await talking(on, "a")
        steers = [await first.steer("s1")]
        await first.ended("steered")
        exchange = await on.fake.next()
        steers += [await first.steer("s2"), await first.steer("s3")]
        if how == "refused":
            await exchange.reply(400, {"error": {"message": "no"}})
            back = await first.failed(*steers)
            assert {one["steer"]["previous_response_id"] for one in back} == {first.id}
        else:
            await on.client.cancel(stream_id="a")
            second = (await on.client.until("response.created", lane="a"))[-1]["response"]["id"]
            back = await first.failed(*steers[1:])
            assert {one["steer"]["previous_response_id"] for one in back} == {second}
        assert {one["error"]["code"] for one in back} == {"successor_creation_failed"}
        assert [one["steer"]["input"] for one in back] == ["s1", "s2", "s3"][-len(back) :]
        assert (await first.refused("s4"))["code"] == "response_not_active"
        await on.usable("a")


async def test_what_fails_later_names_the_one_it_was_for() -> None:
    async with steered(retries=0) as on:
        first = await talking(on, "a")
        await first.steer("s1")
        second = await first.follows()
        late = await first.steer("s2", effective=second.id)
        await second.ended("steered")
        await (await on.fake.next()).reply(400, {"error": {"message": "no"}})
        [back] = await second.failed(late)
        assert back["steer"] == {"id": late, "previous_response_id": second.id, "input": "s2"}
        assert (await record(first, late))["state"] == "failed"
        await on.usable("a")


async def test_the_limit_is_the_chains() -> None:
    async with steered(max_steers=2) as on:
        first = await talking(on, "a")
        await first.steer("s1")
        await first.ended("steered")
        exchange = await on.fake.next()
        await first.steer("s2")
        assert (await first.refused("s3"))["code"] == "too_many_pending_steers"
        await exchange.send(created("r2"))
        await on.client.until("response.incomplete", lane="a")
        await answer(await on.fake.next())
        await on.client.until("response.completed", lane="a")


async def test_a_response_that_nothing_follows_for_its_steers_takes_no_more() -> None:
    async with steered() as on:
        first = await talking(on, "a", "t0")
        await first.send(*closed("t0"), completed(output=[message("t0")]))
        await first.ended()
        await on.client.create("a", previous_response_id=first.id)
        second = await began(on, "a")
        assert (await first.refused("late"))["code"] == "response_already_completed"
        await second.finish()


@pytest.mark.parametrize("by", ["setting", "header"])
async def test_following_can_be_off(by: str) -> None:
    headers = {"multilane-steer-follow": "off"} if by == "header" else {}
    async with (
        steered(steer_follow=by != "setting") as on,
        connect(on.url, headers=headers) as client,
    ):
        first = await talking(on, "a", client=client)
        await first.steer("s1")
        await first.ended("steered")
        exchange = await on.fake.next()
        assert (await first.refused("s2"))["code"] == "response_not_active"
        await exchange.send(created("r2"), in_progress("r2"))
        seen = await client.until("response.in_progress", lane="a")
        second = Running(on, client, "a", exchange, seen[-1]["response"]["id"])
        assert (await first.refused("s2"))["code"] == "response_not_active"
        await second.finish()
