"""What the response store does to an engine: keys and their lives, and what a turn costs."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from lanes.stores.base import MAX_CHAIN
from lanes.stores.redis import RedisResponseStore
from tests.support.redis_engine import Engine
from tests.support.stored_chains import KEY, grow, response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from redis.asyncio import Redis

TTL = 1000


@pytest.fixture(params=["valkey", "redis"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    engine = Engine(request.param, tmp_path)
    await engine.start()
    yield engine
    engine.kill()


@pytest.fixture
async def client(engine: Engine) -> AsyncIterator[Redis]:
    async with engine.client() as client:
        yield client


@pytest.fixture
def store(client: Redis) -> RedisResponseStore:
    return RedisResponseStore(client, prefix="t", store_ttl=TTL)


async def keys(client: Redis) -> set[str]:
    return {key.decode() async for key in client.scan_iter()}


async def test_every_key_expires_and_a_growing_chain_keeps_its_beginning(
    client: Redis, store: RedisResponseStore
) -> None:
    await grow(store, "a", "b", "c")
    for id, parent_id in (("x", "b"), ("y", "x"), ("z", "x")):
        await store.save(response(id, parent_id))
    await store.save(response("headless", "nobody"))
    for key in await keys(client):
        longest = TTL * 9 / 8 if ":branch:" in key else TTL
        assert longest - 20 < await client.ttl(key) <= longest, key
        await client.expire(key, 100)
    await store.save(response("zz", "z"))
    lives = {key: await client.ttl(key) for key in await keys(client)}
    branches = {f"t:branch:{KEY}:{id}" for id in ("a", "x", "z")}
    assert branches == {key for key in lives if ":branch:" in key}
    renewed = {key for key, life in lives.items() if life > 100}
    assert renewed == {*branches, f"t:response:{KEY}:zz"}
    await store.delete(KEY, "z")
    assert 0 < await client.ttl(f"t:response:{KEY}:z") <= 3600


async def test_a_turn_costs_the_same_at_any_depth(client: Redis, store: RedisResponseStore) -> None:
    async def sent() -> int:
        stats = await client.info("stats")
        number: int = stats["total_net_input_bytes"]
        return number

    branch = f"t:branch:{KEY}:r1000"
    costs, sizes = [], []
    ids = [f"r{number}" for number in range(1000, 3000)]
    for start in range(0, 2000, 100):
        before = await sent()
        await grow(store, *ids[max(0, start - 1) : start + 100])
        costs.append(await sent() - before)
        sizes.append(int(await client.memory_usage(branch, samples=0) or 0))
    assert max(costs[1:]) < 1.05 * min(costs[1:])
    steps = [after - before for before, after in pairwise(sizes)]
    assert max(steps) < 3 * min(steps)  # an engine takes memory by the page
    calls = await client.info("commandstats")
    assert calls["cmdstat_lindex"]["calls"] <= 2 * 2000 + 100
    assert "cmdstat_lrange" not in calls


async def test_a_chain_is_read_by_two_round_trips(client: Redis, store: RedisResponseStore) -> None:
    await grow(store, *(f"r{number}" for number in range(50)))
    await store.save(response("x", "r20"))
    await store.save(response("y", "r20"))
    await client.config_resetstat()
    assert await store.load(KEY, "y", MAX_CHAIN)
    stats = await client.info("commandstats")
    calls = {name: stats[name]["calls"] for name in stats}
    calls.pop("cmdstat_config|resetstat", None)
    assert calls == {"cmdstat_hmget": 1, "cmdstat_lrange": 2}


async def test_what_nothing_builds_on_is_really_deleted(
    client: Redis, store: RedisResponseStore
) -> None:
    await grow(store, "a", "b", "c", "d")
    await store.save(response("x", "b"))

    async def held() -> list[str]:
        names: list[Any] = await client.lrange(f"t:branch:{KEY}:a", 0, -1)
        return [name.decode() for name in names[::2]]

    await store.delete(KEY, "c")
    assert await held() == [".a", "+b", "-c", ".d"]
    await store.delete(KEY, "d")
    assert await held() == [".a", "+b"]
    await store.delete(KEY, "b")
    await store.delete(KEY, "x")
    assert await held() == [".a", "+b"]
    await grow(store, "p", "q", "r")
    for id in ("a", "p", "q", "r"):
        await store.delete(KEY, id)
    assert {key for key in await keys(client) if ":branch:" in key} == {f"t:branch:{KEY}:a"}
    for key in await keys(client):
        assert b"body" not in (await client.hkeys(key) if ":response:" in key else ())
