"""Bounds of time that hold, whatever is asked and whoever cancels."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from redis.exceptions import ConnectionError, ReadOnlyError, ResponseError

from steering.errors import StoreUnavailable
from steering.redis.deadline import Deadline
from steering.redis.guard import RedisGuard

#: Nobody waits so long: a deadline that does not hold ends as a hang.
HOUR = 3600.0


async def test_a_deadline_ends_what_swallows_cancellation() -> None:
    swallowed = 0

    async def swallow() -> None:
        nonlocal swallowed
        while swallowed < 3:
            try:
                await asyncio.sleep(HOUR)
            except asyncio.CancelledError:
                swallowed += 1
        await asyncio.sleep(HOUR)

    with pytest.raises(TimeoutError), Deadline(0.01):
        await swallow()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_deadline_in_time_leaves_no_trace() -> None:
    with Deadline(0.01):
        pass
    await anyio.sleep(0.02)
    with pytest.raises(KeyError), Deadline(HOUR):
        raise KeyError


async def test_the_inner_deadline_is_the_inner_ones() -> None:
    with Deadline(HOUR):
        with pytest.raises(TimeoutError), Deadline(0.01):
            await anyio.sleep(HOUR)
        await anyio.lowlevel.checkpoint()
    with pytest.raises(TimeoutError), Deadline(0.01), Deadline(HOUR):
        await anyio.sleep(HOUR)


async def test_a_cancellation_from_outside_stays_one() -> None:
    async def wait() -> None:
        with Deadline(HOUR):
            await asyncio.sleep(HOUR)

    task = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class Pool:
    dropped = 0

    async def disconnect(self, *, inuse_connections: bool) -> None:
        assert not inuse_connections
        self.dropped += 1


class PooledClient:
    def __init__(self) -> None:
        self.connection_pool = Pool()


def guard(**options: Any) -> tuple[Any, RedisGuard]:
    client: Any = PooledClient()
    return client.connection_pool, RedisGuard(client, **options)


@pytest.mark.parametrize(
    ("error", "tries", "dropped"),
    [
        (ResponseError("OOM"), 1, 0),
        (ConnectionError("reset"), 2, 0),
        (ReadOnlyError("READONLY"), 2, 1),
        (OSError("gone"), 1, 0),
    ],
)
async def test_one_repair_at_most(error: Exception, tries: int, dropped: int) -> None:
    pool, guarded = guard(pause=0.0)
    asked = 0

    async def ask() -> None:
        nonlocal asked
        asked += 1
        raise error

    with pytest.raises(StoreUnavailable, match=str(error)):
        await guarded.run(ask)
    assert (asked, pool.dropped) == (tries, dropped)


async def test_a_try_that_hangs_is_made_again_elsewhere() -> None:
    pool, guarded = guard(pause=0.0, deadline=0.5)
    asked = 0

    async def ask() -> int:
        nonlocal asked
        asked += 1
        if asked == 1:
            await asyncio.Event().wait()
        return asked

    assert await guarded.run(ask) == 2
    assert pool.dropped == 1

    async def hang() -> None:
        await asyncio.Event().wait()

    with pytest.raises(StoreUnavailable, match=r"^the store did not answer in time$"):
        await guarded.run(hang)


async def test_a_bug_is_no_trouble_of_the_store() -> None:
    _, guarded = guard()

    async def ask() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        await guarded.run(ask)


async def test_who_is_cancelled_hears_of_it_afterwards() -> None:
    _, guarded = guard()
    done = anyio.Event()

    async def ask() -> None:
        scope.cancel()
        await anyio.sleep(0.01)
        done.set()

    with anyio.CancelScope() as scope:
        await guarded.run(ask)
        await anyio.lowlevel.checkpoint()
    assert done.is_set()
    assert scope.cancelled_caught
