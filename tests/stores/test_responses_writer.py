"""Writes behind the terminal event: never in its way, parents first, bounded, tried again."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from contextvars import Context
from typing import TYPE_CHECKING

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from anyio.lowlevel import checkpoint

from lanes.stores.base import MAX_CHAIN, NotStoredYet, ResponseNotStored
from lanes.stores.memory import MemoryResponseStore
from lanes.stores.write_queue import WriteBounds
from lanes.stores.writer import ResponseWriter
from steering.counters import StoreCounters
from steering.errors import StoreUnavailable
from tests.support.stored_chains import KEY, history, response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lanes.stores.base import StoredResponse


class Gated(MemoryResponseStore):
    """Saves while its gate is open, and fails `failures` times first."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = anyio.Event()
        self.gate.set()
        self.failures = 0
        self.error: Exception = StoreUnavailable("planted")
        self.order: list[str] = []
        self.at_once = self.most = 0

    async def save(self, response: StoredResponse) -> None:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await self.gate.wait()
            if self.failures:
                self.failures -= 1
                raise self.error
            await checkpoint()
            self.order.append(response.id)
            await super().save(response)
        finally:
            self.at_once -= 1

    def close(self) -> None:
        self.gate = anyio.Event()


@pytest.fixture
def store() -> Gated:
    return Gated()


@asynccontextmanager
async def running(writer: ResponseWriter) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writer.run)
        yield
        await writer.aclose()


async def test_put_waits_for_nothing_and_a_reader_for_the_write(store: Gated) -> None:
    writer = ResponseWriter(store)
    writer.put(response("a"))  # also before it runs
    store.close()
    async with running(writer):
        written = anyio.Event()

        async def wait() -> None:
            await writer.wait_for_write(KEY, "a")
            assert await history(store, "a") == ["a"]
            written.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await wait_all_tasks_blocked()
            assert not written.is_set()
            assert writer.bytes_waiting
            await writer.wait_for_write("key_2", "a")
            await writer.wait_for_write(KEY, "unknown")
            store.gate.set()
    assert written.is_set()
    assert writer.bytes_waiting == 0


async def test_parents_are_written_first_and_chains_side_by_side(store: Gated) -> None:
    writer = ResponseWriter(store, bounds=WriteBounds(at_once=4))
    store.close()
    async with running(writer):
        for id, parent_id in (("a", None), ("b", "a"), ("c", "b"), ("p", None), ("q", "p")):
            writer.put(response(id, parent_id))
        await wait_all_tasks_blocked()
        assert store.at_once == 2
        store.gate.set()
    assert store.most == 2
    assert [id for id in store.order if id in "abc"] == ["a", "b", "c"]
    assert await history(store, "c") == ["a", "b", "c"]
    assert await history(store, "q") == ["p", "q"]


async def test_a_write_that_fails_is_tried_again(store: Gated) -> None:
    store.failures = 3
    writer = ResponseWriter(store, attempts=4, backoff=0.001)
    async with running(writer):
        writer.put(response("a"))
        writer.put(response("b", "a"))
    assert store.failures == 0
    assert await history(store, "b") == ["a", "b"]


@pytest.mark.parametrize("error", [StoreUnavailable("planted"), ZeroDivisionError("a bug")])
async def test_a_write_that_fails_for_good_is_logged_and_forgotten(
    store: Gated, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    store.error = error
    store.failures = 2 if isinstance(error, StoreUnavailable) else 1
    writer = ResponseWriter(store, attempts=2, backoff=0.001)
    async with running(writer):
        writer.put(response("a"))
        await writer.wait_for_write(KEY, "a")
        assert await store.load(KEY, "a", MAX_CHAIN) is None
        writer.put(response("b", "a"))
        writer.put(response("c"))
    assert await store.load(KEY, "b", MAX_CHAIN) is None
    assert await store.get(KEY, "b") is not None
    assert await history(store, "c") == ["c"]
    with pytest.raises(ResponseNotStored, match="'a' was completed, but not stored: "):
        writer.check_lost(KEY, "a")
    writer.check_lost(KEY, "b")
    writer.check_lost("key_2", "a")
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert "a" in record.getMessage()
    assert (record.exc_info is None) == isinstance(error, StoreUnavailable)


async def test_nobody_waits_for_ever(store: Gated) -> None:
    writer = ResponseWriter(store, patience=0.01)
    store.close()
    async with running(writer):
        writer.put(response("a"))
        with pytest.raises(NotStoredYet, match="'a' is not stored yet"):
            await writer.wait_for_write(KEY, "a")
        store.gate.set()
    await writer.wait_for_write(KEY, "a")


async def test_what_waits_is_bounded(store: Gated, caplog: pytest.LogCaptureFixture) -> None:
    writer = ResponseWriter(store, bounds=WriteBounds(bytes=10_000))
    store.close()
    async with running(writer):
        writer.put(response("big", body=b"x" * 20_000))
        for number in range(100):
            writer.put(response(f"r{number}"))
        assert writer.bytes_waiting < 30_000
        assert len(caplog.records) == 1
        store.gate.set()
        await writer.wait_for_write(KEY, "big")
        writer.put(response("a"))
        writer.put(response("a"))
    assert store.order == ["big", "a"]
    assert "too many wait" in caplog.text
    with pytest.raises(ResponseNotStored, match="too many wait for the store"):
        writer.check_lost(KEY, "r7")
    writer.check_lost(KEY, "a")


@pytest.mark.parametrize("error", [StoreUnavailable("planted"), ZeroDivisionError("a bug")])
async def test_an_outage_writes_a_line_for_each_reason_and_one_that_counts(
    store: Gated, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    counters = StoreCounters()
    writer = ResponseWriter(store, attempts=1, counters=counters)
    store.error, store.failures = error, 1000
    async with running(writer):
        for number in range(1000):
            writer.put(response(f"r{number}"))
            await writer.wait_for_write(KEY, f"r{number}")
        (record,) = caplog.records
        assert "r0" in record.getMessage()
        writer.put(response("kept"))
        await writer.wait_for_write(KEY, "kept")
        await writer.aclose()
        writer.put(response("late"))
    assert counters.responses_not_stored == 1001
    _, counted, late = (one.getMessage() for one in caplog.records)
    assert counted.startswith("1000 responses were not stored: 1000 ")
    assert late == "response late was not stored: the gateway stops"


async def test_the_end_writes_what_waits_and_takes_no_more(
    store: Gated, caplog: pytest.LogCaptureFixture
) -> None:
    writer = ResponseWriter(store, bounds=WriteBounds(at_once=2))
    store.close()
    async with running(writer):
        for number in range(20):
            writer.put(response(f"r{number}", f"r{number - 1}" if number else None))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(writer.aclose)
            await wait_all_tasks_blocked()
            writer.put(response("late"))
            store.gate.set()
    assert store.order == [f"r{number}" for number in range(20)]
    assert [record.getMessage() for record in caplog.records] == [
        "response late was not stored: the gateway stops"
    ]
    with pytest.raises(ResponseNotStored, match="the gateway stops"):
        writer.check_lost(KEY, "late")


@pytest.mark.parametrize("runs", [False, True])
async def test_the_end_waits_only_so_long(
    store: Gated, caplog: pytest.LogCaptureFixture, runs: bool
) -> None:
    writer = ResponseWriter(store)
    store.close()
    async with anyio.create_task_group() as tasks:
        if runs:
            tasks.start_soon(writer.run)
        writer.put(response("a"))
        writer.put(response("b", "a"))
        await wait_all_tasks_blocked()
        await writer.aclose(timeout=0.01)
        await writer.wait_for_write(KEY, "b")
    assert "2 responses were not stored before the end" in caplog.text
    assert store.order == []


async def test_a_cancelled_writer_leaves_nobody_waiting(store: Gated) -> None:
    writer = ResponseWriter(store)
    store.close()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writer.run)
        writer.put(response("a"))
        await wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    await writer.wait_for_write(KEY, "a")
    await writer.aclose()


async def test_a_callback_of_the_loop_may_put(store: Gated) -> None:
    """A terminal event comes in one: it belongs to no task."""
    writer = ResponseWriter(store)
    async with running(writer):
        await wait_all_tasks_blocked()
        asyncio.get_running_loop().call_soon(writer.put, response("a"), context=Context())
        await wait_all_tasks_blocked()
        assert store.order == ["a"]
    assert await history(store, "a") == ["a"]
