"""The client's own create that answers a response's calls carries its steers, once."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from tests.support.calling import OUTPUT, STUB, called_out, calling
from tests.support.clerk_log import log_clerk
from tests.support.events import called, completed
from tests.support.gateway_stand import user
from tests.support.steered import SETTINGS, began, begin, steered, turns


async def test_b42_the_create_may_come_before_the_pending_event() -> None:
    async with steered() as on:
        parent = await calling(on)
        await parent.steer("s1")
        await parent.steer("s2")
        await on.client.create("a", input="something else first")
        await on.client.create(
            "a", previous_response_id=parent.id, input=[OUTPUT, user("own")], **SETTINGS
        )
        await on.client.heard()
        await called_out(parent)
        await (await began(on, "a")).finish()
        successor = await began(on, "a")
        assert turns(successor.exchange)[1:] == [
            ("function_call", "c1"),
            ("user", "s1"),
            ("user", "s2"),
            ("function_call_output", "c1"),
            ("user", "own"),
        ]
        assert SETTINGS.items() <= successor.exchange.body.items()
        await successor.finish()
        assert "response.steer.pending" not in [e["type"] for e in on.client.transcript]


async def test_b42_a_second_create_carries_no_steer() -> None:
    async with steered() as on:
        parent = await calling(on)
        await parent.steer("s1")
        await called_out(parent)
        for _ in range(2):
            await on.client.create("a", previous_response_id=parent.id, input=[OUTPUT])
        first = await began(on, "a")
        await first.finish()
        second = await began(on, "a")
        assert ("user", "s1") in turns(first.exchange)
        assert ("user", "s1") not in turns(second.exchange)
        await second.finish()


async def test_a_steer_sent_before_the_create_is_carried_however_slow_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = anyio.Event()
    log_clerk(monkeypatch, gate)
    async with steered() as on:
        parent = await begin(on, "a", *called("w"), completed())
        await parent.ended()
        await on.client.steer(parent.id, "s1")
        await on.client.create("a", previous_response_id=parent.id, input=[OUTPUT])
        await anyio.sleep(0.05)
        assert len(on.fake.exchanges) == 1
        gate.set()
        successor = await began(on, "a")
        assert turns(successor.exchange)[2:] == [("user", "s1"), ("function_call_output", "c1")]
        await successor.finish()
        kinds = [e["type"] for e in on.client.transcript if e["type"].startswith("response.steer")]
        assert kinds == ["response.steer.accepted"]


async def test_own_settings_of_the_create_hold() -> None:
    async with steered() as on:
        parent = await calling(on, **SETTINGS, max_output_tokens=99)
        steer = await parent.steer("s1")
        await called_out(parent)
        await parent.pending(steer)
        await on.client.create("a", previous_response_id=parent.id, input=[OUTPUT], temperature=0)
        successor = await began(on, "a")
        body = successor.exchange.body
        assert body["temperature"] == 0
        assert not body.keys() & {"tools", "instructions", "metadata", "max_output_tokens"}
        await successor.finish()


@pytest.mark.parametrize("how", ["string", "nothing", "warm"])
async def test_whatever_the_create_says_the_steers_come_first(how: str) -> None:
    async with steered() as on:
        parent = await calling(on)
        steer = await parent.steer("s1")
        await called_out(parent)
        await parent.pending(steer)
        extra: dict[str, Any] = {"input": "own"} if how == "string" else {"input": []}
        if how == "warm":
            await on.client.create("a", previous_response_id=parent.id, generate=False, **extra)
            warm = await on.client.ended("a")
            await on.client.create("a", previous_response_id=warm["id"])
        else:
            await on.client.create("a", previous_response_id=parent.id, **extra)
        successor = await began(on, "a")
        expected = {"string": [("user", "own")], "nothing": [], "warm": [("user", "hi")]}[how]
        assert turns(successor.exchange)[2:] == [("user", "s1"), *expected]
        await successor.finish()


async def test_a_steer_of_a_response_that_waits_is_pending_at_once() -> None:
    async with steered() as on:
        parent = await begin(on, "a", *called("w"), completed())
        await parent.ended()
        first = await parent.steer("s1")
        assert await parent.pending(first) == [STUB]
        second = await parent.steer("s2")
        assert await parent.pending(second) == [STUB]
        kinds = [e["type"] for e in on.client.lane("a")]
        assert kinds.count("response.steer.pending") == 2
        await on.client.create("a", previous_response_id=parent.id, input=[OUTPUT])
        successor = await began(on, "a")
        assert turns(successor.exchange)[2:4] == [("user", "s1"), ("user", "s2")]
        await parent.steer("s3", effective=successor.id)
        await successor.ended("steered")
        await (await successor.follows()).finish()


async def test_no_pending_event_while_the_create_waits_for_a_slot() -> None:
    async with steered(max_active=1) as on:
        parent = await calling(on)
        await on.client.create("b", input="first")
        await on.client.create("a", previous_response_id=parent.id, input=[OUTPUT])
        await on.client.heard()
        await called_out(parent)
        other = await began(on, "b")
        await parent.steer("late")
        await other.finish()
        successor = await began(on, "a")
        assert ("user", "late") in turns(successor.exchange)
        await successor.finish()
        assert "response.steer.pending" not in [e["type"] for e in on.client.transcript]


@pytest.mark.parametrize("lane", ["b", None])
async def test_a_fork_takes_no_steers(lane: str | None) -> None:
    async with steered() as on:
        parent = await calling(on)
        steer = await parent.steer("s1")
        await called_out(parent)
        await parent.pending(steer)
        fork, _ = await on.turn(lane, previous_response_id=parent.id, input=[OUTPUT])
        assert ("user", "s1") not in turns(fork)
        await on.client.create("a", previous_response_id=parent.id, input=[OUTPUT])
        successor = await began(on, "a")
        assert ("user", "s1") in turns(successor.exchange)
        await successor.finish()


async def test_other_creates_on_the_lane_leave_them_waiting() -> None:
    async with steered() as on:
        parent = await calling(on)
        steer = await parent.steer("s1")
        await called_out(parent)
        await parent.pending(steer)
        _, aside = await on.turn("a", input="aside")
        more, _ = await on.turn("a", previous_response_id=aside["id"])
        assert ("user", "s1") not in turns(more)
        await on.client.create("a", previous_response_id=parent.id, input=[OUTPUT])
        successor = await began(on, "a")
        assert ("user", "s1") in turns(successor.exchange)
        await successor.finish()
