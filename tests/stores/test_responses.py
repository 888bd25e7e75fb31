"""The contract of every response store: continue, fork, get and delete, from any connection."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING
from uuid import uuid4

import anyio
import pytest

from lanes.history.entries import Entry
from lanes.history.lineage import Lineage
from lanes.stores.base import MAX_CHAIN, ChainTooLong
from lanes.stores.memory import MemoryResponseStore
from lanes.stores.redis import RedisResponseStore
from tests.support.stored_chains import KEY, entries, grow, history, response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lanes.stores.base import ResponseStore
    from tests.support.redis_engine import Engine


@pytest.fixture
async def stores(engine: Engine | None) -> AsyncIterator[tuple[ResponseStore, ResponseStore]]:
    """The same store as two processes see it."""
    if engine is None:
        memory = MemoryResponseStore()
        yield memory, memory
        await memory.aclose()
        return
    prefix = uuid4().hex
    async with engine.client() as one, engine.client() as two:
        yield RedisResponseStore(one, prefix=prefix), RedisResponseStore(two, prefix=prefix)


@pytest.fixture
def store(stores: tuple[ResponseStore, ResponseStore]) -> ResponseStore:
    return stores[0]


async def test_a_chain_goes_on_in_any_process(
    stores: tuple[ResponseStore, ResponseStore],
) -> None:
    one, two = stores
    await one.save(response("r1"))
    await two.save(response("r2", "r1"))
    await one.save(response("r3", "r2"))
    for store in stores:
        assert await history(store, "r3") == ["r1", "r2", "r3"]
        assert await history(store, "r1") == ["r1"]
        assert await store.get(KEY, "r2") == b'{"id":"r2"}'


async def test_items_come_back_as_they_were(store: ResponseStore) -> None:
    before = [
        Entry(b'{"type":"message" ,"x":[],"n":null,"f":1.50}'),
        Entry(os.urandom(64), "rs_\u00e9\U0001f600", ()),
        Entry(b"", "", (("call_id", "c1"), ("approval_request_id", ""))),
    ]
    after = [Entry(bytes(range(256)) * 100, None, (("call_id", "\u0000"),))]
    await store.save(response("r1", before=before, after=after, body=bytes(range(256))))
    chain = await store.load(KEY, "r1", MAX_CHAIN)
    assert chain is not None
    (link,) = chain.links
    assert link.input_items == tuple(before)
    assert link.output_items == tuple(after)
    assert await store.get(KEY, "r1") == bytes(range(256))
    head = chain.head("a")
    assert (head.id, head.lane, head.parent) == ("r1", "a", None)
    assert ("call_id", "c1") in head.calls
    assert head.items["rs_\u00e9\U0001f600"] == before[1]


async def test_a_tree_keeps_its_branches_apart(store: ResponseStore) -> None:
    await grow(store, "a", "b", "c", "d")
    for id, parent_id in (("x", "b"), ("y", "x"), ("z", "x"), ("w", "z"), ("v", "a"), ("u", "d")):
        await store.save(response(id, parent_id))
    assert await history(store, "d") == ["a", "b", "c", "d"]
    assert await history(store, "y") == ["a", "b", "x", "y"]
    assert await history(store, "w") == ["a", "b", "x", "z", "w"]
    assert await history(store, "v") == ["a", "v"]
    assert await history(store, "u") == ["a", "b", "c", "d", "u"]
    assert await history(store, "x") == ["a", "b", "x"]


async def test_a_fork_at_every_turn(store: ResponseStore) -> None:
    await store.save(response("r0"))
    for turn in range(1, 40):
        for name in ("s", "r"):
            await store.save(response(f"{name}{turn}", f"r{turn - 1}"))
    assert await history(store, "r39") == [f"r{turn}" for turn in range(40)]
    assert await history(store, "s39") == [*(f"r{turn}" for turn in range(39)), "s39"]


async def test_many_writers_race_for_one_tip(
    stores: tuple[ResponseStore, ResponseStore],
) -> None:
    await grow(stores[0], "a", "b")
    async with anyio.create_task_group() as tasks:
        for number in range(16):
            tasks.start_soon(stores[number % 2].save, response(f"c{number}", "b"))
    for number in range(16):
        assert await history(stores[1], f"c{number}") == ["a", "b", f"c{number}"]


async def test_a_save_is_idempotent(stores: tuple[ResponseStore, ResponseStore]) -> None:
    await grow(stores[0], "a", "b", "c")
    await stores[0].save(response("x", "b"))
    for store in stores:
        for id, parent_id in (("a", None), ("b", "a"), ("c", "b"), ("x", "b")):
            await store.save(response(id, parent_id, body=b"another"))
        assert await history(store, "c") == ["a", "b", "c"]
        assert await history(store, "x") == ["a", "b", "x"]
        assert await store.get(KEY, "a") == b'{"id":"a"}'
    await stores[1].save(response("y", "x"))
    assert await history(stores[0], "y") == ["a", "b", "x", "y"]


async def test_a_retry_by_another_process_after_the_chain_went_on(
    stores: tuple[ResponseStore, ResponseStore],
) -> None:
    one, two = stores
    async with anyio.create_task_group() as tasks:
        for store in stores * 4:
            tasks.start_soon(store.save, response("a"))
    async with anyio.create_task_group() as tasks:
        for store in stores * 4:
            tasks.start_soon(store.save, response("b", "a"))
    await one.save(response("c", "b"))
    await two.save(response("b", "a"))
    assert await history(two, "c") == ["a", "b", "c"]


async def test_foreign_ids_are_unknown_ids(store: ResponseStore) -> None:
    await grow(store, "a", "b")
    assert await store.load("key_2", "b", MAX_CHAIN) is None
    assert await store.load("key_2", "b", 1) is None
    assert await store.get("key_2", "b") is None
    assert not await store.delete("key_2", "b")
    await store.save(response("x", "b", key_id="key_2"))
    assert await store.load("key_2", "x", MAX_CHAIN) is None
    await store.save(response("a", key_id="key_2", body=b"theirs"))
    assert await store.get(KEY, "a") == b'{"id":"a"}'
    assert await store.delete("key_2", "a")
    assert await history(store, "b") == ["a", "b"]


@pytest.mark.parametrize("id", ["", "nope", "1:a", "\ud800", "é", "a\n", "x" * 5000, "{a}", "a\0"])
async def test_ids_that_nobody_has(store: ResponseStore, id: str) -> None:
    await store.save(response("a"))
    await store.save(response("a", key_id="key_1:1"))
    assert await store.load(KEY, id, MAX_CHAIN) is None
    assert await store.get(KEY, id) is None
    assert not await store.delete(KEY, id)
    await store.save(response("b", id))
    assert await store.load(KEY, "b", MAX_CHAIN) is None


async def test_a_chain_without_its_beginning_is_no_parent(store: ResponseStore) -> None:
    await store.save(response("b", "a"))
    await store.save(response("c", "b"))
    assert await store.load(KEY, "b", MAX_CHAIN) is None
    assert await store.load(KEY, "c", MAX_CHAIN) is None
    assert await store.get(KEY, "b") == b'{"id":"b"}'
    assert await store.get(KEY, "c") == b'{"id":"c"}'
    assert await store.delete(KEY, "b")
    assert await store.get(KEY, "b") is None


async def test_a_deleted_response_is_gone_and_its_children_live_on(
    stores: tuple[ResponseStore, ResponseStore],
) -> None:
    one, two = stores
    await grow(one, "a", "b", "c")
    await one.save(response("x", "b"))
    assert await two.delete(KEY, "b")
    assert await one.get(KEY, "b") is None
    assert await one.load(KEY, "b", MAX_CHAIN) is None
    assert not await one.delete(KEY, "b")
    for store in stores:
        assert await history(store, "c") == ["a", "b", "c"]
        assert await history(store, "x") == ["a", "b", "x"]
    await two.save(response("d", "c"))
    assert await history(one, "d") == ["a", "b", "c", "d"]
    await two.save(response("y", "b"))
    assert await two.load(KEY, "y", MAX_CHAIN) is None


@pytest.mark.parametrize("order", ["abcx", "xcba", "bxac", "cbax"])
async def test_everything_deleted_in_any_order(store: ResponseStore, order: str) -> None:
    await grow(store, "a", "b", "c")
    await store.save(response("x", "b"))
    chains = {"a": "a", "b": "ab", "c": "abc", "x": "abx"}
    for id in order:
        assert await store.delete(KEY, id)
        del chains[id]
        for other, chain in chains.items():
            assert await history(store, other) == list(chain)


async def test_a_late_save_does_not_bring_a_deleted_response_back(
    store: ResponseStore,
) -> None:
    await grow(store, "a", "b")
    assert await store.delete(KEY, "b")
    await store.save(response("b", "a"))
    assert await store.get(KEY, "b") is None
    assert await store.load(KEY, "b", MAX_CHAIN) is None
    assert not await store.delete(KEY, "b")


async def test_a_place_that_became_free_is_not_mixed_up(store: ResponseStore) -> None:
    await grow(store, "a", "b", "c")
    assert await store.delete(KEY, "c")
    await store.save(response("d", "b"))
    await store.save(response("late", "c"))
    assert await history(store, "d") == ["a", "b", "d"]
    assert await store.load(KEY, "late", MAX_CHAIN) is None


async def test_a_chain_may_be_too_long(store: ResponseStore) -> None:
    await grow(store, "a", "b")
    await store.save(response("c", "b", before=(), after=()))
    assert await store.load(KEY, "c", 5) is not None
    with pytest.raises(ChainTooLong) as caught:
        await store.load(KEY, "c", 4)
    fault = caught.value
    assert (fault.status, fault.code, fault.param) == (
        400,
        "chain_too_long",
        "previous_response_id",
    )
    assert fault.message == (
        "Previous response with id 'c' builds on 5 items, and at most 4 are allowed. "
        "Start a new chain."
    )
    assert await store.load(KEY, "b", 4) is not None


async def test_a_deep_chain(store: ResponseStore) -> None:
    ids = [f"r{number}" for number in range(2000)]
    await grow(store, *ids)
    assert await history(store, "r1999") == ids
    assert await history(store, "r1000") == ids[:1001]


@pytest.mark.parametrize("noise", [False, True])
async def test_large_responses(store: ResponseStore, noise: bool) -> None:
    size = 6 * 1024 * 1024
    data = os.urandom(size) if noise else json.dumps({"text": "tick tock " * (size // 10)}).encode()
    large = (Entry(data, "msg_1"),)
    await store.save(response("a", before=large, after=(), body=data))
    await store.save(response("b", "a", before=(), after=entries("small")))
    await store.save(response("c", "a", before=large, after=large, body=data))
    for id, expected in (("b", [data, b"small"]), ("c", [data] * 3)):
        chain = await store.load(KEY, id, MAX_CHAIN)
        assert chain is not None
        assert Lineage.effective(chain.head()) == expected
    assert await store.get(KEY, "c") == data
