"""The clerk writes every verdict, in order, however long the store is away."""

from __future__ import annotations

import logging

import anyio
import pytest
from anyio.lowlevel import checkpoint

from steering import clerk
from steering.clerk import Clerk, VerdictNotStored
from steering.counters import StoreCounters
from steering.errors import StoreUnavailable
from steering.states import SubmissionState
from steering.stores.base import Verdict
from steering.stores.memory import MemorySteerStore
from tests.support.hang_guard import HANG

RESPONSE = "resp_" + "a" * 32
STEERS = [f"steer_{'a' * 16}{number:016x}" for number in range(3)]
STEER = STEERS[0]


class Store(MemorySteerStore):
    """A store whose first `away` writes fail."""

    def __init__(self, away: int = 0) -> None:
        super().__init__()
        self.away = away
        self.written: list[SubmissionState] = []

    async def settle(self, verdict: Verdict) -> None:
        if self.away:
            self.away -= 1
            raise StoreUnavailable("planted")
        self.written.append(verdict.state)
        await super().settle(verdict)


def _settle(writer: Clerk, *states: SubmissionState) -> None:
    for state in states:
        writer.settle("key", Verdict(RESPONSE, [STEER], state, None, None))


@pytest.mark.parametrize("away", [0, 1, 3])
async def test_verdicts_are_written_in_order(away: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clerk, "_RETRY", 0.001)
    store = Store(away)
    writer = Clerk(store, "me")
    record = writer.record(STEER, "key", RESPONSE, {"é": [1.0]}, 5.0)
    assert (record.input, record.owner) == ('{"é":[1.0]}'.encode(), "me")
    assert (record.state, record.created_at, record.updated_at) == (
        SubmissionState.ACCEPTED,
        5.0,
        5.0,
    )
    await writer.append(record)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writer.run)
        _settle(writer, SubmissionState.PENDING, SubmissionState.BOUND)
        await writer.flush(5)
        assert (
            store.written[-1] is SubmissionState.BOUND
        )  # what is old news by now need not be written
        _settle(writer, SubmissionState.COMMITTED)
        await writer.flush(5)
        tasks.cancel_scope.cancel()
    stored = await store.get("key", STEER)
    assert stored is not None
    assert stored.state is SubmissionState.COMMITTED


async def test_flush_does_not_wait_for_ever() -> None:
    writer = Clerk(Store(), "me")
    _settle(writer, SubmissionState.DROPPED)
    with anyio.fail_after(HANG):
        await writer.flush(0.01)  # nobody runs it


async def test_a_backlog_is_bounded_and_says_what_it_lost(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(clerk, "_BACKLOG", 2)
    store = Store()
    writer = Clerk(store, "me")
    with caplog.at_level(logging.ERROR):
        for steer, state in zip(
            STEERS,
            (SubmissionState.PENDING, SubmissionState.BOUND, SubmissionState.FAILED),
            strict=True,
        ):
            writer.settle("key", Verdict(RESPONSE, [steer], state, None, None))
    assert f"lost that ['{STEER}'] is pending" in caplog.text
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writer.run)
        await writer.flush(5)
        tasks.cancel_scope.cancel()
    assert store.written == [SubmissionState.BOUND, SubmissionState.FAILED]


class Slow(Store):
    """A store that takes a turn of the loop for each verdict, and fails those of one response."""

    def __init__(self, failing: str | None = None) -> None:
        super().__init__()
        self.settled: list[str] = []
        self.failing = failing

    async def settle(self, verdict: Verdict) -> None:
        await checkpoint()
        if verdict.target == self.failing:
            raise StoreUnavailable("planted")
        self.settled.append(verdict.ids[0])


@pytest.mark.parametrize("failing", [False, True])
async def test_the_backlog_of_one_key_does_not_hold_another(failing: bool) -> None:
    theirs, mine = "resp_" + "b" * 32, RESPONSE
    store = Slow(theirs if failing else None)
    writer = Clerk(store, "me")
    for number in range(4000):
        writer.settle(
            "greedy", Verdict(theirs, [f"g{number}"], SubmissionState.DROPPED, None, None)
        )
    writer.settle("modest", Verdict(mine, [STEERS[0]], SubmissionState.BOUND, None, None))
    writer.settle("modest", Verdict(mine, [STEERS[1]], SubmissionState.COMMITTED, None, None))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writer.run)
        while STEERS[1] not in store.settled:
            await checkpoint()
        assert [name for name in store.settled if name in STEERS] == STEERS[:2]
        assert len(store.settled) < 10
        tasks.cancel_scope.cancel()


async def test_the_key_that_has_most_verdicts_loses_its_oldest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clerk, "_BACKLOG", 6)
    monkeypatch.setattr(clerk, "_BACKLOG_PER_KEY", 5)
    counters = StoreCounters()
    writer = Clerk(Store(), "me", counters)
    for number in range(6):
        writer.settle(
            "greedy", Verdict(RESPONSE, [f"g{number}"], SubmissionState.FAILED, None, None)
        )
    for number in range(2):
        writer.settle(
            "modest", Verdict(RESPONSE, [f"m{number}"], SubmissionState.BOUND, None, None)
        )
    assert counters.steer_verdicts_not_stored == 2
    for lost in ("g0", "g1"):
        with pytest.raises(VerdictNotStored, match=f"'{lost}' is failed, but that was not stored"):
            writer.check_lost("greedy", ["g5", lost])
    writer.check_lost("greedy", ["g2", "g3", "g4", "g5"])
    writer.check_lost("modest", ["m0", "m1", "g0"])
    writer.settle("greedy", Verdict(RESPONSE, ["g0"], SubmissionState.DROPPED, None, None))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writer.run)
        await writer.flush(5)
        tasks.cancel_scope.cancel()
    writer.check_lost("greedy", ["g0"])  # a later verdict was written
    with pytest.raises(VerdictNotStored):
        writer.check_lost("greedy", ["g1"])
