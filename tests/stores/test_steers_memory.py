"""What is particular to submissions in memory: it is bounded, in time and in bytes."""

from __future__ import annotations

from steering.states import SubmissionState
from steering.stores.base import Verdict
from steering.stores.memory import MemorySteerStore
from tests.support.steer_stores import Clock, record, response


async def test_old_ones_are_forgotten() -> None:
    clock = Clock()
    store = MemorySteerStore(ttl=10.0, clock=clock)
    old, kept, early = record(response()), record(response()), record(response())
    for written in (old, kept):
        await store.append(written)
    await store.settle(Verdict(early.target, [early.id], SubmissionState.FAILED))
    clock.now += 9.0
    await store.settle(Verdict(kept.target, [kept.id], SubmissionState.PENDING))
    clock.now += 2.0
    assert await store.get("key", old.id) is None
    assert await store.of_response("key", old.target) == []
    assert await store.get("key", kept.id) is not None
    await store.append(early)
    assert await store.get("key", early.id) == early


async def test_the_oldest_make_room() -> None:
    store = MemorySteerStore(limit_bytes=100)
    records = [record(response(), input=b"x" * 40) for _ in range(3)]
    for written in records:
        await store.append(written)
    stored = [await store.get("key", written.id) for written in records]
    assert stored == [None, *records[1:]]
    large = record(response(), input=b"x" * 200)
    await store.append(large)
    assert await store.get("key", large.id) == large
    assert await store.get("key", records[2].id) is None


async def test_the_key_that_has_most_makes_room() -> None:
    store = MemorySteerStore(limit_bytes=1000)
    first = record(response(), key_id="small", input=b"x" * 40)
    flood = [record(response(), key_id="large", input=b"x" * 40) for _ in range(100)]
    await store.append(first)
    for written in flood:
        await store.append(written)
    assert await store.get("small", first.id) == first
    stored = [await store.get("large", written.id) for written in flood]
    assert stored == [None] * 76 + flood[76:]
