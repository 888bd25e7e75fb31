"""Branches are kept for longer than what builds on them, and a turn's cost ignores its forks."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from lanes.stores import redis as redis_store
from lanes.stores.base import MAX_CHAIN
from lanes.stores.redis import RedisResponseStore
from tests.support.stored_chains import KEY, grow, history, response

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from tests.support.steer_stores import RedisPlace

TTL = 1000
#: Milliseconds that a response is kept, and a branch at most.
LEAST, FULL = TTL * 1000, TTL * 1125


@pytest.fixture
def client(kept: RedisPlace) -> Redis:
    client: Redis = kept.client
    return client


@pytest.fixture
def store(kept: RedisPlace) -> RedisResponseStore:
    return RedisResponseStore(kept.client, prefix=kept.prefix, store_ttl=TTL)


async def calls(client: Redis, *names: str) -> int:
    """How often an engine ran these commands."""
    stats = await client.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in names)


async def touched(client: Redis) -> int:
    return await calls(client, "expire", "pexpire", "pttl")


async def branches(client: Redis, prefix: str) -> dict[str, int]:
    """Each branch, and the milliseconds for which it is kept."""
    found = [key.decode() async for key in client.scan_iter(f"{prefix}:branch:*", count=1000)]
    return {key.rpartition(":")[2]: await client.pttl(key) for key in found}


async def age(client: Redis, prefix: str, milliseconds: int) -> None:
    """Let that time pass for all branches."""
    for name, left in (await branches(client, prefix)).items():
        await client.pexpire(f"{prefix}:branch:{KEY}:{name}", left - milliseconds)


async def forked(store: RedisResponseStore, forks: int) -> str:
    """Grow a chain that leaves a branch at each turn; return its last response."""
    await store.save(response("r0"))
    for turn in range(1, forks + 1):
        await store.save(response(f"s{turn}", f"r{turn - 1}"))
        await store.save(response(f"r{turn}", f"r{turn - 1}"))
    return f"r{forks}"


async def test_a_save_costs_the_same_behind_any_number_of_forks(
    client: Redis, store: RedisResponseStore
) -> None:
    costs = []
    await forked(store, 60)
    for tip in ("r1", "r30", "r59"):
        before = await touched(client)
        await grow(store, tip, *(f"{tip}.{turn}" for turn in range(10)))
        await store.save(response(f"{tip}.fork", tip))
        costs.append(await touched(client) - before)
    assert costs[0] == costs[1] == costs[2]
    assert await history(store, "r59.9") == [
        *(f"r{turn}" for turn in range(60)),
        *(f"r59.{turn}" for turn in range(10)),
    ]


async def test_what_is_due_is_renewed_once_for_all_that_build_on_it(
    client: Redis, store: RedisResponseStore, kept: RedisPlace
) -> None:
    last = await forked(store, 30)
    for leaf in range(20):
        await store.save(response(f"leaf{leaf}", last))
    await age(client, kept.prefix, FULL - LEAST + 1000)
    before = await calls(client, "pexpire")
    for leaf in range(20):
        await store.save(response(f"next{leaf}", f"leaf{leaf}"))
    renewed = await calls(client, "pexpire") - before
    assert renewed == 31 + 19  # each branch on the way once, and each leaf's own but the first's
    lives = await branches(client, kept.prefix)
    for turn in range(1, 31):
        assert lives.get(f"r{turn}", LEAST) >= LEAST - 5000
    before = await calls(client, "pexpire", "pttl")
    await store.save(response("more", "next3"))
    assert await calls(client, "pexpire", "pttl") == before + 1


@pytest.mark.parametrize("seed", range(6))
async def test_no_branch_ever_outlives_what_it_builds_on(
    client: Redis, store: RedisResponseStore, kept: RedisPlace, seed: int
) -> None:
    """Random trees that grow while time passes."""
    draw = random.Random(seed)
    paths: dict[str, list[str]] = {}
    aged = 0
    before = await calls(client, "pexpire")
    for number in range(60):
        id = f"n{number}"
        parent = draw.choice(list(paths)) if number and draw.random() < 0.95 else None
        await store.save(response(id, parent))
        location: Any = store._locations.get((KEY, id))
        if location is None:  # its parent was too old
            continue
        paths[id] = [name for name, _ in location.path]
        lives = await branches(client, kept.prefix)
        for name in paths[id]:
            assert lives[name] >= LEAST - 500, (id, name)
        for path in paths.values():
            own = [lives[name] for name in path if name in lives]
            assert all(above + 500 >= below for above, below in pairwise(own))
        if draw.random() < 0.3:
            step = draw.randrange(FULL - LEAST)
            await age(client, kept.prefix, step)
            aged += step
            before += len(lives)
    renewals = await calls(client, "pexpire") - before
    periods = aged / ((FULL - LEAST) / 2) + 1
    assert renewals <= len(lives) * periods + 60


async def test_a_branch_that_is_lost_loses_the_chain_and_no_save(
    client: Redis, store: RedisResponseStore, kept: RedisPlace
) -> None:
    last = await forked(store, 3)
    await client.delete(f"{kept.prefix}:branch:{KEY}:r0")
    await age(client, kept.prefix, FULL - LEAST + 1000)
    await store.save(response("x", last))
    assert await store.get(KEY, "x") == b'{"id":"x"}'
    assert await store.load(KEY, "x", MAX_CHAIN) is None


async def test_a_way_of_too_many_forks_begins_anew(
    client: Redis, store: RedisResponseStore, kept: RedisPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_store, "MAX_FORKS", 4)
    last = await forked(store, 40)
    whole = [f"r{turn}" for turn in range(41)]
    assert await history(store, last) == whole
    assert await history(store, "r17") == whole[:18]
    for id in ("r3", "r4", "r5", "r40"):
        assert len(store._locations[KEY, id].forks) <= 4
    again = RedisResponseStore(kept.client, prefix=kept.prefix, store_ttl=TTL)
    await again.save(response("r40", "r39"))  # a late retry of another process
    await again.save(response("y", "r40"))
    assert await history(again, "y") == [*whole, "y"]
    for id in ("y", *whole):
        assert await store.delete(KEY, id)
    for turn in range(1, 41):
        assert await store.delete(KEY, f"s{turn}")
    left: Any = client
    for name in await branches(client, kept.prefix):
        held = await left.lrange(f"{kept.prefix}:branch:{KEY}:{name}", 0, -1)
        assert held[-2].startswith(b"+")  # a fork left here; nothing else stays


async def test_a_long_way_is_not_kept_in_memory(
    store: RedisResponseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = await forked(store, 40)
    assert (KEY, "r20") in store._locations
    assert (KEY, last) not in store._locations
    await store.save(response("x", last))
    assert await history(store, "x") == [*(f"r{turn}" for turn in range(41)), "x"]
