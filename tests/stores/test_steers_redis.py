"""What is particular to submissions in an engine: lifetimes, scripts, leases, the pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from gateway.persistence import redis_client
from steering.ids import response_tag
from steering.redis.lease import Lease
from steering.states import SubmissionState
from steering.stores.base import OWNER_GONE, Verdict
from steering.stores.redis import RedisSteerStore
from tests.support.steer_stores import record, response, until

if TYPE_CHECKING:
    from tests.support.steer_stores import RedisPlace


async def calls(client: Any) -> dict[str, int]:
    stats = await client.info("commandstats")
    names = ("evalsha", "eval", "get", "set", "hgetall", "lrange", "exists", "ping")
    return {n: stats[f"cmdstat_{n}"]["calls"] for n in names if f"cmdstat_{n}" in stats}


async def test_every_key_has_an_end_and_the_tag(kept: RedisPlace) -> None:
    store = await kept.store()
    target = response()
    records = [record(target, at) for at in range(3)]
    early = record(target)
    for written in records:
        await store.append(written)
    ids = [*(r.id for r in records), early.id]
    await store.settle(Verdict(target, ids, SubmissionState.FAILED))
    keys = [key async for key in kept.client.scan_iter(f"{kept.prefix}:*")]
    assert len(keys) == 1 + 4 + 1
    for key in keys:
        left = await kept.client.pttl(key)
        assert 0 < left <= (15_000 if b":owner:" in key else 86_400_000)
        assert b":owner:" in key or b"{%s}" % (response_tag(target) or "").encode() in key


async def test_nothing_outlives_its_time(kept: RedisPlace) -> None:
    await kept.store()
    brief = RedisSteerStore(kept.client, kept.leases["me"], prefix=kept.prefix, ttl=0.02)
    written = record(response())
    await brief.append(written)

    async def over() -> bool:
        return await brief.get("key", written.id) is None

    await until(over)
    assert await brief.of_response("key", written.target) == []


async def test_one_round_trip_each(kept: RedisPlace) -> None:
    store = await kept.store()
    target = response()
    records = [record(target, at) for at in range(32)]
    await store.append(records[0])
    await store.settle(
        Verdict(target, [records[0].id], SubmissionState.PENDING)
    )  # the engine has the scripts now
    await kept.client.config_resetstat()
    for written in records:
        await store.append(written)
    await store.settle(Verdict(target, [r.id for r in records], SubmissionState.COMMITTED))
    assert (await calls(kept.client)) == {"evalsha": 33}


async def test_scripts_may_be_forgotten_at_any_time(kept: RedisPlace) -> None:
    store = await kept.store()
    written = record(response())
    for state in (
        SubmissionState.ACCEPTED,
        SubmissionState.PENDING,
        SubmissionState.BOUND,
        SubmissionState.COMMITTED,
    ):
        await kept.client.script_flush()
        await store.append(written)
        await kept.client.script_flush()
        await store.settle(Verdict(written.target, [written.id], state))
        stored = await store.get("key", written.id)
        assert stored is not None
        assert stored.state is state


async def test_a_record_of_other_ids_is_refused(kept: RedisPlace) -> None:
    store = await kept.store()
    for wrong in (record(response(), id=record(response()).id), record(response(), id="steer_1")):
        with pytest.raises(ValueError, match="by its ids"):
            await store.append(wrong)


async def test_few_connections_serve_many_callers(kept: RedisPlace) -> None:
    store = await kept.store()
    async with anyio.create_task_group() as group:
        for _ in range(100):
            group.start_soon(store.append, record(response()))
    names = [client["name"] for client in await kept.client.client_list()]
    assert len(names) <= redis_client.POOL_SIZE + 4  # those of the engine's own tests


async def test_the_lease_ends_by_itself(kept: RedisPlace) -> None:
    they = Lease(kept.client, "they", ttl=2.0, prefix=kept.prefix)
    theirs = RedisSteerStore(kept.client, they, prefix=kept.prefix)
    left = record(response(), owner="they")
    await theirs.append(left)  # gives the first sign of life by itself
    assert they.held
    ours = await kept.store("me")
    kept.clock.now += 5.0

    async def judged() -> bool:
        return await ours.get("key", left.id) != left

    await until(judged)
    stored = await ours.get("key", left.id)
    assert stored is not None
    assert (stored.state, stored.reason) == (SubmissionState.DROPPED, OWNER_GONE)


async def test_a_lease_is_kept_by_its_task(kept: RedisPlace) -> None:
    lease = Lease(kept.client, "they", ttl=1.5, prefix=kept.prefix)
    judge = Lease(kept.client, "me", prefix=kept.prefix, clock=kept.clock)
    await judge.renew()
    kept.clock.now += 5.0
    async with anyio.create_task_group() as group:
        group.start_soon(lease.run)
        with anyio.move_on_after(3.2):  # more than twice as long as it lasts
            while True:
                assert not lease.held or await judge.gone({"they", "me"}) == set()
                await anyio.sleep(0.01)
        assert lease.held
        group.cancel_scope.cancel()
    await lease.release()
    assert await judge.gone({"they", "me"}) == {"they"}
    assert not lease.held


async def test_nobody_is_judged_right_after_an_outage(kept: RedisPlace) -> None:
    ours, theirs = await kept.store("me"), await kept.store("they")
    left = record(response(), owner="they")
    await theirs.append(left)
    kept.clock.now += 100.0
    await kept.client.delete(f"{kept.prefix}:owner:me", f"{kept.prefix}:owner:they")
    await kept.leases["me"].renew()  # finds that its own lease had run out
    assert await ours.get("key", left.id) == left
    await kept.leases["they"].renew()
    kept.clock.now += 100.0
    assert await ours.get("key", left.id) == left


async def test_after_everything_was_flushed_there_is_nothing(kept: RedisPlace) -> None:
    store = await kept.store()
    written = record(response())
    await store.append(written)
    keys = [key async for key in kept.client.scan_iter(f"{kept.prefix}:*")]
    await kept.client.delete(*keys)
    await store.settle(Verdict(written.target, [written.id], SubmissionState.COMMITTED))
    assert await store.get("key", written.id) is None
    assert await store.of_response("key", written.target) == []
