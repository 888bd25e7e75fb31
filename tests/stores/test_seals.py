"""The seals of compaction items, and the store of the key that makes them (D41)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.stores.sealing_keys import MemorySealingKeyStore, RedisSealingKeyStore
from lanes.stores.seals import MAX_SEAL, BrokenSealError, Seals, is_seal
from steering.errors import StoreUnavailable
from tests.support.cpu_share import worked_aside

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lanes.stores.sealing_keys import SealingKeyStore
    from tests.support.redis_engine import Engine

OLD, NEW = "an old secret of the operator's", "a new secret of the operator's"


@pytest.fixture
async def stores(engine: Engine | None) -> AsyncIterator[tuple[SealingKeyStore, SealingKeyStore]]:
    """The same store as two processes see it."""
    if engine is None:
        memory = MemorySealingKeyStore()
        yield memory, memory
        return
    prefix = uuid4().hex
    async with engine.client() as one, engine.client() as two:
        yield RedisSealingKeyStore(one, prefix=prefix), RedisSealingKeyStore(two, prefix=prefix)


async def test_all_processes_have_the_first_key(
    stores: tuple[SealingKeyStore, SealingKeyStore],
) -> None:
    one, two = stores
    assert await one.get() is None
    assert await two.get_or_put(b"a" * 32) == b"a" * 32
    assert await one.get_or_put(b"b" * 32) == b"a" * 32
    assert await one.get() == await two.get() == b"a" * 32


async def test_what_one_process_seals_another_opens(
    stores: tuple[SealingKeyStore, SealingKeyStore],
) -> None:
    one, two = (Seals((), store) for store in stores)
    seal = await one.seal("k", b"content")
    assert is_seal(seal)
    assert await two.open("k", seal) == b"content"
    assert await one.open("k", await two.seal("k", b"more")) == b"more"


async def test_a_seal_is_opened_by_a_process_that_was_asked_before_there_was_a_key(
    stores: tuple[SealingKeyStore, SealingKeyStore],
) -> None:
    one, two = (Seals((), store) for store in stores)
    with pytest.raises(BrokenSealError):
        await two.open("k", "ml1.0123456789abcdef.AAAA")
    assert await two.open("k", await one.seal("k", b"content")) == b"content"


async def test_the_secrets_of_the_operator_rotate() -> None:
    store = MemorySealingKeyStore()
    oldest = await Seals((), store).seal("k", b"oldest")
    old = await Seals((OLD,), store).seal("k", b"old")
    both = Seals((NEW, OLD), store)
    new = await both.seal("k", b"new")
    assert [await both.open("k", seal) for seal in (oldest, old, new)] == [
        b"oldest",
        b"old",
        b"new",
    ]
    assert await Seals((NEW,), MemorySealingKeyStore()).open("k", new) == b"new"
    with pytest.raises(BrokenSealError):
        await Seals((NEW,), store).open("k", old)


async def test_another_key_or_another_gateway_opens_nothing() -> None:
    seals = Seals((OLD,), MemorySealingKeyStore())
    seal = await seals.seal("k", b"content")
    assert b"content" not in seal.encode()
    assert seal != await seals.seal("k", b"content")
    for stranger, key_id in (
        (seals, "other"),
        (Seals((NEW,), MemorySealingKeyStore()), "k"),
        (Seals((), MemorySealingKeyStore()), "k"),
    ):
        with pytest.raises(BrokenSealError):
            await stranger.open(key_id, seal)


async def test_what_is_large_is_sealed_and_opened_aside() -> None:
    """It takes tens of milliseconds (D33)."""
    seals = Seals((OLD,), MemorySealingKeyStore())
    content = os.urandom(MAX_SEAL * 3 // 4 - 1000)
    await seals.open("k", await seals.seal("k", content[: 1 << 18]))  # starts the thread
    with worked_aside():
        opened = await seals.open("k", await seals.seal("k", content))
    assert opened == content


@given(st.data())
async def test_no_change_goes_unnoticed(data: st.DataObject) -> None:
    seals = Seals((OLD,), MemorySealingKeyStore())
    seal = await seals.seal("k", b"some content that is sealed")
    place = data.draw(st.integers(0, len(seal) - 1))
    letter = data.draw(st.characters(codec="utf-8"))
    how = data.draw(st.sampled_from(["replace", "insert", "cut"]))
    changed = {
        "replace": seal[:place] + letter + seal[place + 1 :],
        "insert": seal[:place] + letter + seal[place:],
        "cut": seal[:place],
    }[how]
    if changed == seal:
        return
    with pytest.raises(BrokenSealError):
        await seals.open("k", changed)


async def test_a_broken_key_in_the_store(valkey: Engine) -> None:
    prefix = uuid4().hex
    async with valkey.client() as client:
        await client.set(f"{prefix}:sealing-key", b"short")
        seals = Seals((), RedisSealingKeyStore(client, prefix=prefix))
        with pytest.raises(StoreUnavailable):
            await seals.seal("k", b"content")
        with pytest.raises(StoreUnavailable):
            await seals.open("k", "ml1.0123456789abcdef.AAAA")
