"""The contract of every store of conversations, in memory and on each engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anyio
import pytest

from lanes.stores.conversations import (
    Addition,
    Conversation,
    ConversationFull,
    ConversationItem,
    ConversationKey,
    ItemBounds,
    ItemNotFound,
    Page,
    TooManyConversations,
)
from lanes.stores.memory_conversations import MemoryConversationStore
from lanes.stores.redis_conversations import RedisConversationStore
from steering.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lanes.stores.conversations import ConversationStore
    from tests.support.redis_engine import Engine

CONV = "conv_" + "a" * 32
KEY = ConversationKey("k", CONV)
OTHER = "conv_" + "b" * 32
MADE = Conversation(CONV, 17, {"topic": "harbour"})
TOKENS = [f"{n:016x}" for n in range(300)]


def item(name: str, text: str = "") -> ConversationItem:
    data = f'{{"role":"user","content":"{text or name}"}}'.encode()
    return ConversationItem(name, data, (("call_id", f"c{name}"),), b'{"shown":1}')


def names(items: list[ConversationItem] | None) -> list[str] | None:
    return None if items is None else [item.id for item in items]


@pytest.fixture
async def stores(
    engine: Engine | None,
) -> AsyncIterator[tuple[ConversationStore, ConversationStore]]:
    """The same store as two processes see it; a key has room for three conversations."""
    if engine is None:
        memory = MemoryConversationStore(max_conversations=3)
        yield memory, memory
        return
    options: dict[str, Any] = {"prefix": uuid4().hex, "max_conversations": 3}
    async with engine.client() as one, engine.client() as two:
        yield RedisConversationStore(one, **options), RedisConversationStore(two, **options)


Stores = tuple["ConversationStore", "ConversationStore"]


async def test_what_is_created_is_there_for_its_key_alone(stores: Stores) -> None:
    one, two = stores
    kept = [item("a"), ConversationItem("b", b"", (), b'{"only":"shown"}')]
    await one.create("k", MADE, kept)
    assert await two.get(KEY) == MADE
    assert await two.items(KEY) == kept
    assert await two.item(KEY, "b") == kept[1]
    for key in (ConversationKey("other", CONV), ConversationKey("k", OTHER)):
        assert await two.get(key) is None
        assert await two.items(key) is None
        assert await two.page(key, Page()) is None
        assert await two.item(key, "a") is None
        assert await two.update(key, {}) is None
        assert not await two.append(key, Addition([item("c")], TOKENS[0]))
        assert not await two.remove(key, "a")
        assert not await two.delete(key)
    assert await one.items(KEY) == kept


async def test_creating_again_changes_nothing(stores: Stores) -> None:
    one, two = stores
    await one.create("k", MADE, [item("a")])
    await two.append(KEY, Addition([item("b")], TOKENS[0]))
    await two.create("k", MADE, [item("a")])
    assert names(await one.items(KEY)) == ["a", "b"]


async def test_metadata_is_replaced(stores: Stores) -> None:
    one, two = stores
    await one.create("k", MADE, [item("a")])
    after = await two.update(KEY, {"x": "y"})
    assert after == Conversation(CONV, 17, {"x": "y"}) == await one.get(KEY)
    assert names(await one.items(KEY)) == ["a"]


async def test_items_are_added_all_at_once_and_one_time(stores: Stores) -> None:
    one, two = stores
    await one.create("k", MADE, [])
    assert await one.items(KEY) == []
    added = [item(f"n{n}") for n in range(50)]
    assert await one.append(KEY, Addition(added, TOKENS[0]))
    assert await two.append(KEY, Addition([item("last")], TOKENS[1]))
    assert await one.append(KEY, Addition(added, TOKENS[0]))
    assert names(await two.items(KEY)) == [*(f"n{n}" for n in range(50)), "last"]


async def test_writers_at_once_do_not_mix(stores: Stores) -> None:
    one, two = stores
    await one.create("k", MADE, [])

    async def write(store: ConversationStore, turn: int) -> None:
        added = [item(f"{turn}.{n}") for n in range(4)]
        assert await store.append(KEY, Addition(added, TOKENS[turn]))

    async with anyio.create_task_group() as tasks:
        for turn in range(20):
            tasks.start_soon(write, (one, two)[turn % 2], turn)
    ids = names(await one.items(KEY))
    assert ids is not None
    assert len(ids) == 80
    for start in range(0, 80, 4):
        first = ids[start].partition(".")[0]
        assert ids[start : start + 4] == [f"{first}.{n}" for n in range(4)]


@pytest.mark.parametrize("descending", [False, True])
async def test_pages(stores: Stores, descending: bool) -> None:
    one, two = stores
    ids = [f"n{n}" for n in range(7)]
    await one.create("k", MADE, [item(name) for name in ids])
    wanted = ids[::-1] if descending else ids
    for limit in (1, 2, 3, 7, 9):
        seen: list[str] = []
        after = None
        while page := await two.page(KEY, Page(limit, after, descending)):
            assert len(page) <= limit
            seen += [kept.id for kept in page]
            after = seen[-1]
        assert seen == wanted
    with pytest.raises(ItemNotFound):
        await two.page(KEY, Page(2, "gone", descending))


@pytest.mark.parametrize("bytes_like", ["1", "0", "-", "17", "384"])
async def test_no_id_is_taken_for_what_comes_before_the_items(
    stores: Stores, bytes_like: str
) -> None:
    one, two = stores
    await one.create("k", MADE, [])
    assert await two.item(KEY, bytes_like) is None
    await one.append(KEY, Addition([item(bytes_like)], TOKENS[0]))
    found = await two.item(KEY, bytes_like)
    assert found is not None
    assert found.id == bytes_like


async def test_an_item_is_removed_and_the_others_stay_in_order(stores: Stores) -> None:
    one, two = stores
    await one.create("k", MADE, [item(name) for name in "abcd"])
    assert await one.remove(KEY, "b")
    assert not await two.remove(KEY, "b")
    assert names(await two.items(KEY)) == ["a", "c", "d"]
    assert await two.remove(KEY, "d")
    assert await two.append(KEY, Addition([item("e")], TOKENS[0]))
    assert names(await one.items(KEY)) == ["a", "c", "e"]
    for name in "ace":
        assert await one.remove(KEY, name)
    assert await one.items(KEY) == []
    assert await one.get(KEY) == MADE


async def test_a_full_conversation_takes_nothing_until_there_is_room(stores: Stores) -> None:
    one, two = stores
    await one.create("k", MADE, [item("a")])
    size = item("a").size
    for bounds in (ItemBounds(2), ItemBounds(9, 2 * size)):
        with pytest.raises(ConversationFull):
            await two.append(KEY, Addition([item("b"), item("c")], TOKENS[0], bounds))
        assert names(await one.items(KEY)) == ["a"]
    assert await two.append(KEY, Addition([item("b")], TOKENS[1], ItemBounds(2, 2 * size)))
    with pytest.raises(ConversationFull):
        await two.append(KEY, Addition([item("c")], TOKENS[2], ItemBounds(9, 2 * size)))
    await two.remove(KEY, "a")
    assert await two.append(KEY, Addition([item("c")], TOKENS[3], ItemBounds(2, 2 * size)))
    assert names(await one.items(KEY)) == ["b", "c"]
    # What a response said finds room in any case.
    assert await two.append(KEY, Addition([item("d"), item("e")], TOKENS[4]))


async def test_a_key_has_so_many_conversations(stores: Stores) -> None:
    one, two = stores
    ids = [f"conv_{n:032x}" for n in range(4)]
    for name in ids[:3]:
        await one.create("k", Conversation(name, 1, {}), [])
    with pytest.raises(TooManyConversations):
        await two.create("k", Conversation(ids[3], 1, {}), [])
    assert await two.get(ConversationKey("k", ids[3])) is None
    await two.create("other", Conversation(ids[3], 1, {}), [])
    assert await two.delete(ConversationKey("k", ids[0]))
    await two.create("k", Conversation(ids[3], 1, {}), [])
    assert await one.get(ConversationKey("k", ids[3])) is not None


async def test_a_deleted_conversation_takes_nothing_more(stores: Stores) -> None:
    one, two = stores
    await one.create("k", MADE, [item("a")])
    assert await two.delete(KEY)
    assert not await two.delete(KEY)
    assert not await one.append(KEY, Addition([item("b")], TOKENS[0]))
    assert await one.update(KEY, {}) is None
    assert await one.get(KEY) is None


async def test_large_items_come_back_as_they_were(stores: Stores) -> None:
    one, two = stores
    large = [item("a", "x" * 300_000), item("b", "y" * 3_000)]
    await one.create("k", MADE, large)
    assert await two.items(KEY) == large


async def test_the_memory_is_bounded_and_the_greediest_key_forgets() -> None:
    store = MemoryConversationStore(max_bytes=40_000)
    await store.create("small", Conversation(OTHER, 1, {}), [item("a")])
    ids = [f"conv_{n:032x}" for n in range(9)]
    for name in ids:
        await store.create("k", Conversation(name, 1, {}), [item("a", "x" * 6_000)])
        assert store.bytes_held <= 40_000
    assert await store.get(ConversationKey("small", OTHER)) is not None
    assert await store.get(ConversationKey("k", ids[0])) is None
    assert await store.get(ConversationKey("k", ids[-1])) is not None
    for name in ids:
        await store.delete(ConversationKey("k", name))
    await store.delete(ConversationKey("small", OTHER))
    assert store.bytes_held == 0


async def test_the_memory_forgets_what_nobody_changed_for_so_long() -> None:
    now = 0.0
    store = MemoryConversationStore(store_ttl=10, clock=lambda: now)
    await store.create("k", MADE, [])
    await store.create("k", Conversation(OTHER, 1, {}), [])
    now = 6
    await store.append(KEY, Addition([item("a")], TOKENS[0]))
    now = 11
    assert await store.get(ConversationKey("k", OTHER)) is None
    assert await store.get(KEY) is not None
    now = 17
    assert await store.get(KEY) is None
    assert store.bytes_held == 0


async def test_an_engine_keeps_nothing_for_ever(engine: Engine | None) -> None:
    if engine is None:
        return
    now, prefix = 1000.0, uuid4().hex
    async with engine.client() as client:
        store = RedisConversationStore(
            client, prefix=prefix, store_ttl=50, max_conversations=1, clock=lambda: now
        )
        await store.create("k", MADE, [item("a")])
        keys = [key async for key in client.scan_iter(f"{prefix}:*")]
        assert len(keys) == 2
        for key in keys:
            await client.expire(key, 7)
        await store.append(KEY, Addition([item("b")], TOKENS[0]))
        assert [await client.ttl(key) > 7 for key in keys] == [True, True]
        # One that has ended takes no room.
        now = 1051.0
        await store.create("k", Conversation(OTHER, 1, {}), [])


async def test_an_engine_that_is_away(engine: Engine | None) -> None:
    if engine is None:
        return
    async with engine.client() as client:
        store = RedisConversationStore(client, prefix=uuid4().hex)
        await store.create("k", MADE, [])
        for key in [key async for key in client.scan_iter("*:conversation:k:*")]:
            await client.delete(key)
            await client.set(key, "no list")
        with pytest.raises(StoreUnavailable):
            await store.items(KEY)
