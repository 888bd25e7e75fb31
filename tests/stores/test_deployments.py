"""The same submissions in a real Cluster, and through a real failover by Sentinel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from redis.exceptions import ConnectionError, ResponseError

from steering.errors import StoreUnavailable
from steering.states import SubmissionState
from steering.stores.base import Verdict
from tests.support.redis_engine import Engine, binary
from tests.support.steer_stores import RedisPlace, free_port, record, response, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


async def works(place: RedisPlace) -> bool:
    """Whether submissions go all their way; False while the store is away."""
    target = response()
    records = [record(target, at) for at in range(3)]
    try:
        store = await place.store()
        for written in records:
            await store.append(written)
        await store.settle(Verdict(target, [r.id for r in records], SubmissionState.COMMITTED))
        stored = await store.of_response("key", target)
        one = await store.get("key", records[0].id)
    except StoreUnavailable:
        return False
    assert [r.id for r in stored] == [r.id for r in records]
    assert {r.state for r in stored} == {SubmissionState.COMMITTED}
    assert one == stored[0]
    return True


async def command(admin: Any, *words: Any) -> Any:
    """The answer to a command, as it comes."""
    return await admin.execute_command(*words)


async def replication(admin: Any) -> list[str]:
    """What an engine says of its part, as `name:value`."""
    return [f"{name}:{value}" for name, value in (await admin.info("replication")).items()]


@pytest.fixture
async def cluster(short: Path) -> AsyncIterator[tuple[Engine, int]]:
    """A cluster of one, and its port."""
    port = free_port()
    options = [
        *("--port", str(port), "--bind", "127.0.0.1", "--cluster-enabled", "yes"),
        *("--cluster-port", str(free_port())),
    ]
    engine = Engine("valkey", short, *options)
    await engine.start()
    async with engine.client() as admin:
        await command(admin, "CLUSTER", "ADDSLOTSRANGE", 0, 16383)

        async def formed() -> bool:
            return "cluster_state:ok" in str(await command(admin, "CLUSTER", "INFO"))

        await until(formed)
    yield engine, port
    engine.kill()


async def test_a_cluster(cluster: tuple[Engine, int]) -> None:
    engine, port = cluster
    async with RedisPlace(f"redis+cluster://127.0.0.1:{port}") as place:
        assert await works(place)
        await place.store("they")
        await place.client.script_flush()
        assert await works(place)
        await place.leave("they")
        assert await place.leases["me"].gone({"they"}) == {"they"}
        engine.kill()
        assert not await works(place)
        await engine.start()
        await until(lambda: works(place))


@pytest.fixture
async def guarded(short: Path) -> AsyncIterator[list[Engine]]:
    """A primary, its replica, and the Sentinel that watches both as `mine`."""
    ports = [free_port() for _ in range(3)]
    for name in "prs":
        (short / name).mkdir()
    bind = ("--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0")
    primary = Engine("valkey", short / "p", *bind, "--port", str(ports[0]))
    replica = Engine("valkey", short / "r", *bind, "--port", str(ports[1]))
    sentinel = Engine("valkey", short / "s")
    (short / "s" / "conf").write_text(
        f"port {ports[2]}\nbind 127.0.0.1\nunixsocket {sentinel.path}\ndir {short / 's'}\n"
        f"logfile log\nsentinel monitor mine 127.0.0.1 {ports[0]} 1\n"
    )
    sentinel._command = [binary("valkey"), str(short / "s" / "conf"), "--sentinel"]
    await primary.start()
    await replica.start()
    async with replica.client() as admin:
        await admin.replicaof("127.0.0.1", str(ports[0]))

        async def synced() -> bool:
            return "master_link_status:up" in await replication(admin)

        await until(synced)
    await sentinel.start()
    yield [primary, replica, sentinel]
    for engine in (sentinel, primary, replica):
        engine.kill()


async def test_a_failover_by_sentinel(guarded: list[Engine], short: Path) -> None:
    primary, replica, sentinel = guarded
    port = (short / "s" / "conf").read_text().split()[1]
    # The first Sentinel of the list is none.
    async with RedisPlace(
        f"redis+sentinel://127.0.0.1:{free_port()},127.0.0.1:{port}/mine"
    ) as place:
        await until(lambda: works(place))
        async with sentinel.client() as admin:

            async def begun() -> bool:
                try:
                    await command(admin, "SENTINEL", "FAILOVER", "mine")
                except ResponseError:  # it does not know the replica yet
                    return False
                return True

            await until(begun)
        async with replica.client() as admin:

            async def promoted() -> bool:
                try:
                    return "role:master" in await replication(admin)
                except ConnectionError:  # Sentinel has all clients thrown out as it promotes
                    return False

            await until(promoted)
        primary.kill()
        await until(lambda: works(place))
        async with replica.client() as admin:
            assert await admin.dbsize() > 0
