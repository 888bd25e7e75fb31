"""Steers and their records: nothing is accepted unwritten, and nobody waits for a slow store."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from steering.clerk import Clerk
from steering.desk import Desk
from steering.errors import StoreUnavailable
from tests.cases.test_steer_ends import until
from tests.support.calling import OUTPUT, called_out, calling
from tests.support.clerk_log import log_clerk
from tests.support.events import closed, completed, delta
from tests.support.steered import began, steered, talking, turns


async def test_a_response_that_ends_waits_for_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = anyio.Event()
    log_clerk(monkeypatch, gate)
    async with steered() as on:
        parent = await talking(on, "a")
        for text in ("s1", "s2"):
            await on.client.steer(parent.id, text)
        await on.client.heard()
        await parent.send(delta("on"), *closed("abcon"), completed())
        assert (await parent.ended())["status"] == "completed"
        gate.set()
        successor = await parent.follows()
        assert turns(successor.exchange)[1:] == [
            ("assistant", "abcon"),
            ("user", "s1"),
            ("user", "s2"),
        ]
        await successor.finish()


async def test_steers_are_answered_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    gates = {b'"s0"': anyio.Event(), b'"s1"': anyio.Event()}
    written: list[bytes] = []
    append = Clerk.append

    async def late(clerk: Clerk, record: Any) -> None:
        if record.input in gates:
            await gates[record.input].wait()
        await append(clerk, record)
        written.append(record.input)

    monkeypatch.setattr(Clerk, "append", late)
    async with steered(steer_boundary="item") as on:
        other, parent = await talking(on, "b"), await talking(on, "a")
        for number in range(4):
            await on.client.steer(parent.id, f"s{number}")
        await other.steer("nobody waits for another lane")
        await other.send(*closed("abc"))
        await (await other.follows()).finish()
        await until(lambda: len(written) == 3)
        gates[b'"s1"'].set()
        await until(lambda: len(written) == 4)
        assert not [e for e in on.client.lane("a") if e["type"] == "response.steer.accepted"]
        gates[b'"s0"'].set()
        for _ in range(4):
            await on.client.until("response.steer.accepted", lane="a")
        await parent.send(*closed("abc"))
        successor = await parent.follows()
        assert [text for _, text in turns(successor.exchange)[2:]] == ["s0", "s1", "s2", "s3"]


@pytest.mark.parametrize("end", ["runs", "completed"])
async def test_b72_without_a_store_only_steering_fails(
    monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    gate, append = anyio.Event(), Clerk.append

    async def trouble(clerk: Clerk, record: Any) -> None:
        await gate.wait()
        await append(clerk, record)  # it is done, but nobody hears of it
        raise StoreUnavailable("planted")

    monkeypatch.setattr(Clerk, "append", trouble)
    async with steered() as on:
        parent = await talking(on, "a")
        await on.client.steer(parent.id, "x")
        await on.client.heard()
        await parent.says("on")
        if end == "completed":
            await parent.send(*closed("abcon"), completed())
            await parent.ended()
        gate.set()
        event = (await on.client.until("response.steer.failed", lane="a"))[-1]
        assert event["error"]["code"] == "steering_unavailable"
        assert event["steer"]["input"] == "x"
        if end == "runs":
            await parent.says("and on")
            await parent.send(*closed("abconand on"), completed())
            await parent.ended()
        assert (await parent.refused("y"))["code"] == "response_already_completed"
        await on.usable("a")


async def test_a_record_that_comes_too_late_is_refused_without_following(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gates = {b'"early"': anyio.Event(), b'"late"': anyio.Event()}
    kept = log_clerk(monkeypatch)
    append, take = Clerk.append, Desk.take
    taking, late = anyio.Event(), anyio.Event()

    async def appending(clerk: Clerk, record: Any) -> None:
        if record.input == b'"late"':
            late.set()
        await gates[record.input].wait()
        await append(clerk, record)

    async def taken(desk: Desk, *create: Any) -> Any:
        taking.set()
        return await take(desk, *create)

    monkeypatch.setattr(Clerk, "append", appending)
    monkeypatch.setattr(Desk, "take", taken)
    async with steered(steer_follow=False) as on:
        parent = await calling(on)
        await called_out(parent)
        await on.client.steer(parent.id, "early")
        await on.client.create("a", previous_response_id=parent.id, input=[OUTPUT])
        await taking.wait()
        await on.client.steer(parent.id, "late")
        await late.wait()
        gates[b'"early"'].set()
        successor = await began(on, "a")
        gates[b'"late"'].set()
        event = (await on.client.until("response.steer.failed", lane="a"))[-1]
        assert event["error"]["code"] == "response_not_active"
        assert event["steer"]["input"] == "late"
        assert kept.states[event["steer"]["id"]] == ["accepted", "failed"]
        assert turns(successor.exchange)[2:] == [("user", "early"), ("function_call_output", "c1")]
        await successor.finish()
