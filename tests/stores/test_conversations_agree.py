"""Whatever is asked of them in whatever order, all stores of conversations say the same."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from lanes.errors import ClientFault
from lanes.stores.conversations import (
    Addition,
    Conversation,
    ConversationItem,
    ConversationKey,
    ItemBounds,
    Page,
)
from lanes.stores.memory_conversations import MemoryConversationStore
from lanes.stores.redis_conversations import RedisConversationStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lanes.stores.conversations import ConversationStore
    from tests.support.redis_engine import Engine

    Call = Callable[[ConversationStore], Awaitable[Any]]

STEPS = 150
KEYS = [ConversationKey(key, f"conv_{n:032x}") for key in ("k", "other") for n in range(3)]
#: Few, so that they meet; some look like what the stores keep beside the items.
IDS = [*"abcdefg", "-", ".", "0", "17", "ok", "gone", "ä"]


def _call(draw: random.Random) -> Call:
    key, one = draw.choice(KEYS), draw.choice(IDS)
    items = [
        ConversationItem(draw.choice(IDS), b"x" * draw.choice((0, 9, 5000)), (), b"s")
        for _ in range(draw.randrange(5))
    ]
    bounds = draw.choice((None, ItemBounds(12), ItemBounds(99, 20_000)))
    token = f"{draw.randrange(40):016x}"
    page = Page(draw.randint(1, 6), draw.choice((None, one)), draw.random() < 0.5)
    conversation = Conversation(key.id, draw.randrange(9), {"n": "x"})
    calls: list[Call] = [
        lambda store: store.create(key.key_id, conversation, items),
        lambda store: store.append(key, Addition(items, token, bounds)),
        lambda store: store.append(key, Addition(items, token, bounds)),
        lambda store: store.items(key),
        lambda store: store.page(key, page),
        lambda store: store.page(key, page),
        lambda store: store.item(key, one),
        lambda store: store.remove(key, one),
        lambda store: store.update(key, {"m": token}),
        lambda store: store.get(key),
    ]
    if draw.random() < 0.03:
        return lambda store: store.delete(key)
    return draw.choice(calls)


async def _said(call: Call, store: ConversationStore) -> Any:
    try:
        return await call(store)
    except ClientFault as fault:
        return fault.code, fault.message


@pytest.mark.parametrize("seed", range(8))
async def test_any_calls_get_the_same_answers(valkey: Engine, seed: int) -> None:
    draw = random.Random(seed)
    memory = MemoryConversationStore(max_conversations=2)
    async with valkey.client() as client:
        engine = RedisConversationStore(client, prefix=uuid4().hex, max_conversations=2)
        for step in range(STEPS):
            call = _call(draw)
            assert await _said(call, memory) == await _said(call, engine), step
        for key in KEYS:
            assert await memory.items(key) == await engine.items(key)
