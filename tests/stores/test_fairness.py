"""Keys take turns: no key waits for the queue of another, in writing, reading or being refused."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from anyio.lowlevel import checkpoint

from lanes.history.archive import Archive, ArchiveUnavailable
from lanes.stores.base import MAX_CHAIN, ResponseNotStored
from lanes.stores.memory import MemoryResponseStore
from lanes.stores.redis import RedisResponseStore
from lanes.stores.write_queue import WriteBounds
from lanes.stores.writer import ResponseWriter
from steering.counters import StoreCounters
from steering.errors import StoreUnavailable
from steering.lost_records import LostRecords
from steering.redis import guard as guards
from steering.redis.fair_turns import FairTurns
from steering.redis.guard import RedisGuard
from tests.support.hang_guard import HANG
from tests.support.stored_chains import history, response

if TYPE_CHECKING:
    from lanes.stores.base import StoredResponse
    from tests.support.steer_stores import RedisPlace

GREEDY, MODEST, THIRD = "greedy", "modest", "third"


class Counting(MemoryResponseStore):
    """Takes a turn of the loop for each save, and holds those that a test names."""

    def __init__(self) -> None:
        super().__init__()
        self.saved: list[str] = []
        self.open = anyio.Event()
        self.held: set[str] = set()
        self.failing: set[str] = set()

    async def save(self, response: StoredResponse) -> None:
        await checkpoint()
        if response.key_id in self.held:
            await self.open.wait()
        if response.key_id in self.failing:
            raise StoreUnavailable("planted")
        self.saved.append(response.id)
        await super().save(response)


async def test_16000_warm_ups_of_one_key_do_not_hold_the_reads_of_another() -> None:
    store, counters = Counting(), StoreCounters()
    archive = Archive(store, MAX_CHAIN, counters)
    for number in range(16_000):
        archive.put(response(f"w{number}", key_id=GREEDY))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(archive.run)
        for number in range(13):
            before = len(store.saved)
            archive.put(response(f"m{number}", key_id=MODEST))
            assert await archive.get(MODEST, f"m{number}") == b'{"id":"m%d"}' % number
            # What was being written, and one of the greedy key's in the meantime.
            assert len(store.saved) - before <= 2 * WriteBounds().at_once
        assert len(store.saved) < 1000
        await archive.aclose(20)
    stored = counters.responses_stored
    assert counters.responses_not_stored == 16_013 - stored
    assert stored == len(store.saved) >= 8_192


async def test_a_greedy_key_is_told_what_was_not_stored() -> None:
    archive = Archive(Counting(), MAX_CHAIN)
    for number in range(9_000):
        archive.put(response(f"w{number}", key_id=GREEDY))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(archive.run)
        assert await archive.get(GREEDY, "w5") == b'{"id":"w5"}'
        with pytest.raises(ArchiveUnavailable) as caught:
            await archive.get(GREEDY, "w8999")
        fault = caught.value
        assert (fault.status, fault.code) == (503, "response_not_stored")
        assert fault.message == (
            "Response 'w8999' was completed, but not stored: "
            "too many of its key wait for the store."
        )
        assert await archive.get(MODEST, "w8999") is None
        assert await archive.delete(GREEDY, "w8999")
        assert await archive.get(GREEDY, "w8999") is None
        assert not await archive.delete(GREEDY, "w8999")
        await archive.aclose(0)


async def test_a_chain_whose_parent_was_not_stored_says_why() -> None:
    archive = Archive(Counting(), MAX_CHAIN)
    await archive.aclose(0)
    archive.put(response("a", key_id=GREEDY))
    with pytest.raises(
        Exception, match=r"'a' not found: it was not stored: the gateway stops\.$"
    ) as e:
        await archive.find(GREEDY, "a")
    assert getattr(e.value, "code", None) == "previous_response_not_found"
    assert await archive.find(MODEST, "a") is None


async def test_the_key_that_has_most_gives_when_all_is_full() -> None:
    store = Counting()
    writer = ResponseWriter(store, bounds=WriteBounds(bytes=100_000, bytes_per_key=90_000))
    for number in range(60):
        writer.put(response(f"g{number}", key_id=GREEDY))
    kept = [f"g{number}" for number in range(60) if not _lost(writer, GREEDY, f"g{number}")]
    assert 30 < len(kept) < 60
    for number in range(15):
        writer.put(response(f"m{number}", key_id=MODEST))
        writer.put(response(f"t{number}", f"t{number - 1}" if number else None, key_id=THIRD))
    assert writer.bytes_waiting <= 100_000
    for number in range(15):
        assert not _lost(writer, MODEST, f"m{number}")
        assert not _lost(writer, THIRD, f"t{number}")
    left = [id for id in kept if not _lost(writer, GREEDY, id)]
    assert left == kept[: len(left)]  # the latest of the greedy key went
    assert 5 < len(left) < len(kept)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writer.run)
        await writer.aclose()
    assert writer.bytes_waiting == writer.waiting == 0
    assert await history(store, "t14", THIRD) == [f"t{number}" for number in range(15)]
    assert {id for id in store.saved if id.startswith("g")} == set(left)


async def test_the_number_that_waits_is_bounded_by_key_and_in_all() -> None:
    bounds = WriteBounds(count=10, count_per_key=6)
    writer = ResponseWriter(Counting(), bounds=bounds)
    for key in (GREEDY, MODEST):
        for number in range(7):
            writer.put(response(f"{key}{number}", key_id=key))
    assert writer.waiting == 10
    assert _lost(writer, GREEDY, "greedy6")
    assert sum(_lost(writer, GREEDY, f"greedy{number}") for number in range(7)) == 2
    assert sum(_lost(writer, MODEST, f"modest{number}") for number in range(7)) == 2
    await writer.aclose(0)


def _lost(writer: ResponseWriter, key_id: str, response_id: str) -> bool:
    try:
        writer.check_lost(key_id, response_id)
    except ResponseNotStored:
        return True
    return False


@pytest.mark.parametrize("trouble", ["held", "failing"])
async def test_a_key_whose_writes_hang_or_fail_holds_its_own_turns_only(trouble: str) -> None:
    store, counters = Counting(), StoreCounters()
    getattr(store, trouble).update((GREEDY, "greedy2") if trouble == "failing" else (GREEDY,))
    writer = ResponseWriter(store, backoff=60, counters=counters)
    for number in range(100):
        writer.put(response(f"g{number}", key_id=GREEDY))
        writer.put(response(f"h{number}", key_id="greedy2"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writer.run)
        await wait_all_tasks_blocked()
        for number in range(20):
            writer.put(response(f"m{number}", key_id=MODEST))
            await writer.wait_for_write(MODEST, f"m{number}")
        assert [id for id in store.saved if id.startswith("m")] == [f"m{n}" for n in range(20)]
        tasks.cancel_scope.cancel()
    if trouble == "failing":
        assert counters.store_write_retries == 2 * WriteBounds().at_once_per_key


async def test_turns_go_round() -> None:
    turns = FairTurns(2, 2)
    order: list[str] = []
    gate = asyncio.Event()

    async def use(key: str) -> None:
        async with turns.turn(key):
            await gate.wait()
            order.append(key)

    async with anyio.create_task_group() as tasks:
        for key in ("a",) * 9 + ("b",) * 2 + ("c",):
            tasks.start_soon(use, key)
        await wait_all_tasks_blocked()
        assert order == []
        gate.set()
    assert order[:2] == ["a", "a"]
    assert sorted(order[2:5]) == ["a", "b", "c"]
    assert order.count("a") == 9


async def test_a_turn_that_is_given_up_is_no_turn() -> None:
    turns = FairTurns(1, 1)
    reached: list[str] = []

    async def use(key: str, scope: anyio.CancelScope) -> None:
        with scope:
            async with turns.turn(key):
                reached.append(key)
                await anyio.sleep_forever()

    scopes = {key: anyio.CancelScope() for key in "abcd"}
    async with anyio.create_task_group() as tasks:
        for key in "abcd":
            tasks.start_soon(use, key, scopes[key])
            await wait_all_tasks_blocked()
        scopes["b"].cancel()
        await wait_all_tasks_blocked()
        scopes["a"].cancel()  # now it is granted to c, which goes in the same moment
        scopes["c"].cancel()
        await wait_all_tasks_blocked()
        assert reached[0] == "a"
        assert reached[-1] == "d"
        scopes["d"].cancel()
    with anyio.fail_after(HANG):
        async with turns.turn("e"):
            pass


async def test_the_slow_reads_of_one_key_leave_room_for_another(kept: RedisPlace) -> None:
    guard = RedisGuard(kept.client)
    store = RedisResponseStore(kept.client, prefix=kept.prefix, guard=guard)
    await store.save(response("m", key_id=MODEST))
    gate = asyncio.Event()
    async with anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(guard.run, gate.wait, GREEDY)
        await wait_all_tasks_blocked()
        assert await store.get(MODEST, "m") == b'{"id":"m"}'
        assert guards.MAX_CALLS_PER_KEY < guards.MAX_CALLS
        gate.set()


def test_the_memory_of_lost_records_is_bounded_by_key_and_in_all() -> None:
    lost = LostRecords(per_key=3, in_all=5)
    for number in range(5):
        lost.add("a", f"a{number}", "full")
    assert [lost.reason("a", f"a{number}") for number in range(5)] == [None, None, *["full"] * 3]
    for number in range(3):
        lost.add("b", f"b{number}", "away")
    assert len(lost) == 5
    assert lost.reason("a", "a2") is None
    assert lost.reason("b", "b0") == "away"
    assert lost.reason("b", "a4") is None
    assert lost.forget("a", "a4")
    assert not lost.forget("a", "a4")
    assert not lost.forget("c", "a4")
    lost.add("b", "b2", "full")
    assert (len(lost), lost.reason("b", "b2")) == (4, "full")
