"""The response store in memory: bounded by bytes and by time."""

from __future__ import annotations

from lanes.stores.base import MAX_CHAIN
from lanes.stores.memory import MemoryResponseStore
from tests.support.stored_chains import KEY, grow, history, response


async def test_ids_unused_for_longest_go_first() -> None:
    store = MemoryResponseStore(max_bytes=25_000)
    await grow(store, "a", "b", "c")
    for number in range(100):
        await store.save(response(f"other{number}", body=b"x" * 1000))
        assert store.bytes_held <= 25_000
        assert await history(store, "c") == ["a", "b", "c"]
    assert await store.get(KEY, "a") is None
    assert await store.get(KEY, "other0") is None
    assert await store.get(KEY, "other99") is not None


async def test_shared_items_count_once_and_leave_with_the_last_that_needs_them() -> None:
    store = MemoryResponseStore()
    await store.save(response("a", body=b""))
    one = store.bytes_held
    for id in ("b", "c", "d"):
        await store.save(response(id, "a", body=b""))
    assert store.bytes_held == 4 * one
    await store.delete(KEY, "a")
    await store.delete(KEY, "b")
    assert store.bytes_held == 3 * one
    await store.delete(KEY, "c")
    await store.delete(KEY, "d")
    assert store.bytes_held == 0


async def test_a_response_larger_than_all_room_is_not_kept() -> None:
    store = MemoryResponseStore(max_bytes=1000)
    await store.save(response("a", body=b"x" * 2000))
    assert await store.get(KEY, "a") is None
    assert store.bytes_held == 0


async def test_responses_live_so_long_and_their_items_as_long_as_the_chain() -> None:
    now = 0.0
    store = MemoryResponseStore(store_ttl=10, clock=lambda: now)
    await store.save(response("a"))
    now = 6
    await store.save(response("b", "a"))
    now = 10
    assert await store.get(KEY, "a") is None
    assert await store.load(KEY, "a", MAX_CHAIN) is None
    assert not await store.delete(KEY, "a")
    assert await history(store, "b") == ["a", "b"]
    await store.save(response("c", "b"))
    now = 19
    assert await history(store, "c") == ["a", "b", "c"]
    assert await store.get(KEY, "b") is None
    now = 20
    assert await store.load(KEY, "c", MAX_CHAIN) is None
    assert store.bytes_held == 0


async def test_a_greedy_key_makes_no_other_forget() -> None:
    store = MemoryResponseStore(max_bytes=60_000)
    await grow(store, "a", "b", "c", key_id="modest")
    for number in range(2000):
        await store.save(response(f"w{number}", f"w{number - 1}" if number % 3 else None))
        assert store.bytes_held <= 60_000
    assert await history(store, "c", "modest") == ["a", "b", "c"]
    assert await store.get("modest", "a") is not None
    assert await store.get(KEY, "w1999") is not None
    assert await store.get(KEY, "w0") is None
    for number in range(100):  # a second one comes, and both have about the same in the end
        await store.save(response(f"v{number}", key_id="greedy"))
    first = [await store.get(KEY, f"w{number}") for number in range(2000)]
    second = [await store.get("greedy", f"v{number}") for number in range(100)]
    assert abs(sum(map(bool, first)) - sum(map(bool, second))) < 10
    assert await history(store, "c", "modest") == ["a", "b", "c"]
