"""Runs next to each other: races, crowds, and a fault of our own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from lanes.stream.run import Run
from lanes.worker import Worker
from tests.support.client import connect
from tests.support.events import completed, created, delta, incomplete, opened, reply
from tests.support.gateway_stand import answer, said, stand, user
from tests.support.hang_guard import HANG

if TYPE_CHECKING:
    import logging

    from tests.support.client import Client
    from tests.support.exchange import Exchange


def _echo(exchange: Exchange) -> list[bytes]:
    return reply(f"re {said(exchange)[-1]}")


@pytest.mark.parametrize("ending", ["one write", "split", "incomplete"])
async def test_who_forks_on_reading_the_terminal_finds_the_parent(ending: str) -> None:
    def script(exchange: Exchange) -> list[bytes]:
        if ending == "incomplete":
            return [created(), *opened(), delta("x"), incomplete()]
        return [b"".join(reply("x"))] if ending == "one write" else reply("x")

    async with stand(script) as on:
        parent = None
        for turn in range(200):
            lane = f"l{turn % 7}"  # never the lane of the turn before
            await on.client.create(lane, input=[user("q")], previous_response_id=parent)
            seen = await on.client.until(
                "response.completed", "response.incomplete", "error", lane=lane
            )
            assert seen[-1]["type"] != "error", seen[-1]
            parent = seen[-1]["response"]["id"]
            if turn % 20 == 0:
                parent = None
        chain = on.fake.exchanges[-1]
        assert len(said(chain)) == 2 * 18 + 1


async def test_a_warm_ups_fork_finds_it_too() -> None:
    async with stand() as on:
        parent = None
        for turn in range(100):
            lane = f"l{turn % 2}"
            await on.client.create(lane, generate=False, previous_response_id=parent, input="x")
            parent = (await on.client.ended(lane))["id"]


async def test_a_fork_sent_before_the_terminal_is_read_waits_for_nothing() -> None:
    """It comes while its parent runs, on a lane that is free: refused, and no later than that."""
    async with stand() as on:
        exchange = await on.asked("a")
        await exchange.send(created())
        parent = (await on.client.until("response.in_progress"))[-1]["response"]["id"]
        refused = await on.refused("b", previous_response_id=parent)
        assert refused["error"]["code"] == "previous_response_not_found"
        await answer(exchange, [completed()])
        await on.client.ended("a")
        following, _ = await on.turn("b", previous_response_id=parent)
        assert len(following.input) == 2


async def _crowd(client: Client, name: int, lanes: int, turns: int) -> None:
    for lane in range(lanes):
        for turn in range(turns):
            await client.create(f"l{lane}", input=f"{name} {lane} {turn}")
    for _ in range(lanes * turns):
        await client.until("response.completed")
    for lane in range(lanes):
        texts = [
            seen["response"]["output"][0]["content"][0]["text"]
            for seen in client.lane(f"l{lane}")
            if seen["type"] == "response.completed"
        ]
        assert texts == [f"re {name} {lane} {turn}" for turn in range(turns)]


async def test_b73_ten_connections_of_sixteen_lanes_all_at_once() -> None:
    together = anyio.Event()

    def script(exchange: Exchange) -> list[Any]:
        if len(on.fake.exchanges) >= 160:
            together.set()
        return [created(), together, *_echo(exchange)[1:]]

    async with stand(script) as on, anyio.create_task_group() as tasks:
        for name in range(10):
            tasks.start_soon(_joined, on.url, name, 1)
        with anyio.fail_after(HANG):
            await together.wait()  # no stream waits for another's end
    assert len(on.fake.exchanges) == 160


async def _joined(url: str, name: int, turns: int) -> None:
    async with connect(url) as client:
        await _crowd(client, name, 16, turns)
        assert client.judge is not None
        client.judge.finish()


async def test_lanes_are_fifo_and_never_more_than_allowed_run() -> None:
    running, most = 0, 0

    async def script(exchange: Exchange) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await exchange.send(created(), *opened())
        running -= 1
        await answer(exchange, _echo(exchange)[4:])

    async with stand(script, max_active=3) as on:
        await _crowd(on.client, 0, 8, 5)
        assert most <= 3


async def test_a_fault_of_our_own_fails_its_response_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    receive = Run.receive

    def planted(run: Run, name: str | None, data: bytes) -> None:
        if b"PLANTED" in data:
            raise RuntimeError("planted")
        receive(run, name, data)

    monkeypatch.setattr(Run, "receive", planted)
    async with stand() as on:
        other = await on.asked("b")
        await other.send(created(), *opened(), delta("a"))
        exchange = await on.asked("a")
        await exchange.send(created(), *opened(), delta("sent"), delta("PLANTED"), delta("late"))
        broken = await on.client.ended("a")
        assert (broken["status"], broken["error"]["code"]) == ("failed", "server_error")
        assert "planted" not in str(broken)
        await exchange.hang(1)
        early = await on.asked("a")
        await early.send(created(x="PLANTED"))
        error = await on.client.error("a")
        assert (error["status"], error["error"]["code"]) == (500, "server_error")
        await on.usable("a")
        await answer(other, [completed()])
        assert (await on.client.ended("b"))["status"] == "completed"
        _logged_once(on.errors, 2)


async def test_a_fault_of_our_own_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    start = Worker._start

    def planted(worker: Worker, create: Any, *rest: Any) -> Any:
        if create.body["input"] == "PLANTED":
            raise RuntimeError("planted")
        return start(worker, create, *rest)

    monkeypatch.setattr(Worker, "_start", planted)
    async with stand() as on:
        refused = await on.refused("a", input="PLANTED")
        assert refused["status"] == 500
        await on.usable("a")
        _logged_once(on.errors, 1)


def _logged_once(errors: list[logging.LogRecord], times: int) -> None:
    """Each fault with its traceback; what was looked at is no surprise at the end."""
    assert len(errors) == times
    for record in errors:
        assert record.exc_info is not None
        assert str(record.exc_info[1]) == "planted"
    errors.clear()
