"""An engine that is slow, gone, full or demoted: quick and clear failures, and one verdict."""

from __future__ import annotations

import resource
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
import pytest

from steering.errors import StoreUnavailable
from steering.states import SubmissionState
from steering.stores.base import Verdict
from tests.support.hang_guard import HANG
from tests.support.redis_engine import Engine
from tests.support.steer_stores import RedisPlace, on_file, record, response, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from steering.stores.base import SteerRecord, SteerStore


@contextmanager
def unavailable() -> Iterator[None]:
    with pytest.raises(StoreUnavailable), anyio.fail_after(HANG):
        yield


async def everything_fails(store: SteerStore, written: SteerRecord) -> None:
    """Each call, all at once, within its time."""

    async def fail(n: int) -> None:
        with unavailable():
            match n % 4:
                case 0:
                    await store.append(written)
                case 1:
                    await store.settle(
                        Verdict(written.target, [written.id], SubmissionState.PENDING)
                    )
                case 2:
                    await store.get("key", written.id)
                case _:
                    await store.of_response("key", written.target)

    async with anyio.create_task_group() as group:
        for n in range(40):
            group.start_soon(fail, n)


async def works(store: SteerStore, *, at_once: bool = True) -> None:
    """A submission goes all its way; at first only after some tries, unless `at_once`."""
    written = record(response())

    async def append() -> bool:
        try:
            await store.append(written)
        except StoreUnavailable:
            assert not at_once
            return False
        return True

    await until(append)
    await store.settle(
        Verdict(written.target, [written.id], SubmissionState.COMMITTED, successor=response())
    )
    (stored,) = await store.of_response("key", written.target)
    assert stored.state is SubmissionState.COMMITTED


async def test_paused(victim: Engine, hurt: RedisPlace) -> None:
    store = await hurt.store()
    before = record(response())
    await store.append(before)
    victim.pause()
    late = record(before.target, 1e9)
    await everything_fails(store, late)
    victim.resume()
    await works(store)
    await store.append(late)
    # What was sent while it slept was done by now, many times over: it is there once.
    stored = await store.of_response("key", before.target)
    assert [r.id for r in stored] == [before.id, late.id]


async def test_a_verdict_overtakes_a_late_append(victim: Engine, hurt: RedisPlace) -> None:
    store = await hurt.store()
    late = record(response())
    await works(store)
    victim.pause()
    with unavailable():
        await store.append(late)
    with unavailable():
        await store.settle(
            Verdict(late.target, [late.id], SubmissionState.FAILED, reason="unavailable")
        )
    victim.resume()
    await store.settle(
        Verdict(late.target, [late.id], SubmissionState.FAILED, reason="unavailable")
    )

    async def there() -> bool:
        return await store.get("key", late.id) is not None

    await until(there)
    expected = replace(
        late, state=SubmissionState.FAILED, reason="unavailable", updated_at=hurt.clock.now
    )
    assert await store.of_response("key", late.target) == [expected]


async def test_killed_and_started_again(victim: Engine, hurt: RedisPlace) -> None:
    store = await hurt.store()
    written = record(response())
    await store.append(written)
    await on_file(hurt.client)
    victim.kill()
    await everything_fails(store, record(response()))
    await victim.start()
    await works(store)
    assert await store.get("key", written.id) == written


async def test_back_within_one_call(victim: Engine, hurt: RedisPlace) -> None:
    store = await hurt.store()
    await works(store)
    victim.kill()
    async with anyio.create_task_group() as group:
        group.start_soon(works, store)
        await victim.start()


async def test_demoted(victim: Engine, hurt: RedisPlace) -> None:
    store = await hurt.store()
    written = record(response())
    await store.append(written)
    await hurt.client.replicaof("127.0.0.1", "1")
    with unavailable():
        await store.append(record(response()))
    with unavailable():
        await store.settle(Verdict(written.target, [written.id], SubmissionState.FAILED))
    assert await store.get("key", written.id) == written
    await hurt.client.replicaof("no", "one")
    await works(store)
    assert await store.get("key", written.id) == written


async def test_full(victim: Engine, hurt: RedisPlace) -> None:
    store = await hurt.store()
    written = record(response())
    await store.append(written)
    await hurt.client.config_set("maxmemory", 1)
    with unavailable():
        await store.append(record(response()))
    with unavailable():
        await store.settle(Verdict(written.target, [written.id], SubmissionState.COMMITTED))
    assert await store.get("key", written.id) == written
    await hurt.client.config_set("maxmemory", 0)
    await works(store)
    await store.settle(Verdict(written.target, [written.id], SubmissionState.COMMITTED))


class Survivor(Engine):
    """An engine that ignores SIGXFSZ, as Python does and hands on unless asked not to."""

    def _spawn(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, restore_signals=False)


@pytest.fixture(params=["valkey", "redis"])
async def survivor(request: pytest.FixtureRequest, short: Path) -> AsyncIterator[Engine]:
    engine = Survivor(request.param, short)
    await engine.start()
    yield engine
    engine.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="limits the files of another process")
async def test_full_disk(survivor: Engine) -> None:
    async with RedisPlace(survivor) as place:
        store = await place.store()
        written = record(response())
        await store.append(written)
        pid = (await place.client.info("server"))["process_id"]
        free = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, free[1]))

        async def full() -> bool:
            try:
                await store.append(record(response()))
            except StoreUnavailable as error:
                return "MISCONF" in str(error)
            return False  # the engine finds out as it writes

        await until(full)
        with unavailable():
            await store.settle(Verdict(written.target, [written.id], SubmissionState.COMMITTED))
        assert await store.get("key", written.id) == written
        resource.prlimit(pid, resource.RLIMIT_FSIZE, free)
        await works(store, at_once=False)


async def test_gone_from_the_start(victim: Engine, hurt: RedisPlace) -> None:
    store = await hurt.store()
    victim.kill()
    hurt.clock.now += 100.0  # the lease is over; an append renews it
    with unavailable():
        await store.append(record(response()))
    await victim.start()
    await works(store)
    assert hurt.leases["me"].held


async def test_callers_that_leave_lose_no_connection(victim: Engine, hurt: RedisPlace) -> None:
    store = await hurt.store()
    await works(store)
    victim.pause()
    for _ in range(2):
        async with anyio.create_task_group() as group:
            for _ in range(40):
                group.start_soon(store.append, record(response()))
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
            victim.resume()
        victim.pause()
    victim.resume()
    await works(store)
    pool = hurt.client.connection_pool
    assert not pool._in_use_connections
