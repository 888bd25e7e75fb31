"""The clerk writes every verdict, in order, however long the store is away."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from steering import clerk
from steering.clerk import Clerk
from steering.errors import StoreUnavailable
from steering.states import SubmissionState
from steering.stores.memory import MemorySteerStore

if TYPE_CHECKING:
    from collections.abc import Sequence

RESPONSE = "resp_" + "a" * 32
STEERS = [f"steer_{'a' * 16}{number:016x}" for number in range(3)]
STEER = STEERS[0]


class Store(MemorySteerStore):
    """A store whose first `away` writes fail."""

    def __init__(self, away: int = 0) -> None:
        super().__init__()
        self.away = away
        self.written: list[SubmissionState] = []

    async def settle(
        self, target: str, ids: Sequence[str], state: SubmissionState, **kept: Any
    ) -> None:
        if self.away:
            self.away -= 1
            raise StoreUnavailable("planted")
        self.written.append(state)
        await super().settle(target, ids, state, **kept)


def _settle(writer: Clerk, *states: SubmissionState) -> None:
    for state in states:
        writer.settle(RESPONSE, [STEER], state, None, None)


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
    with anyio.fail_after(5):
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
            writer.settle(RESPONSE, [steer], state, None, None)
    assert f"lost that ['{STEER}'] is pending" in caplog.text
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writer.run)
        await writer.flush(5)
        tasks.cancel_scope.cancel()
    assert store.written == [SubmissionState.BOUND, SubmissionState.FAILED]
