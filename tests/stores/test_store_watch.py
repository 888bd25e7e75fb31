"""Trouble of an engine is seen and said, once when it comes and once when it goes."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from gateway.persistence import redis_client
from gateway.persistence.store_condition import StoreState, refusal
from gateway.persistence.store_watch import StoreWatch
from steering.counters import StoreCounters
from steering.errors import StoreUnavailable
from steering.redis.guard import RedisGuard
from tests.support.redis_engine import Engine
from tests.support.scripted_redis import bulk, scripted_redis
from tests.support.steer_stores import free_port, until

if TYPE_CHECKING:
    import logging
    from collections.abc import AsyncIterator
    from pathlib import Path

OK, DEGRADED, AWAY = StoreState.OK, StoreState.DEGRADED, StoreState.AWAY


class Watched:
    """A watch that runs, and what it came to see."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.counters = StoreCounters()
        self.guard = RedisGuard(client, counters=self.counters)
        self.watch = StoreWatch(client, self.guard, "me", self.counters, interval=0.02, pause=0.02)

    async def sees(self, state: StoreState, *reasons: str) -> None:
        """Wait until this is how the engine is, with just these reasons."""

        async def seen() -> bool:
            condition = self.watch.condition
            return condition.state is state and all(
                any(reason in found for found in condition.reasons) for reason in reasons
            )

        with anyio.fail_after(60):
            await until(seen)
        assert len(self.watch.condition.reasons) == len(reasons), self.watch.condition


@asynccontextmanager
async def watched(url: str) -> AsyncIterator[Watched]:
    client = redis_client.connect(url)
    on = Watched(client)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(on.watch.run)
            yield on
            tasks.cancel_scope.cancel()
    finally:
        await redis_client.close(client)


def unix(engine: Engine, login: str = "") -> str:
    return f"unix://{login}{engine.path}"


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What the watch logs."""
    caplog.set_level("INFO", "multilane.stores")
    return caplog


def lines(records: list[logging.LogRecord]) -> list[str]:
    return [f"{record.levelname} {record.getMessage().partition(' (')[0]}" for record in records]


async def test_an_engine_that_is_well_is_nothing_to_talk_of(
    victim: Engine, said: pytest.LogCaptureFixture
) -> None:
    async with watched(unix(victim)) as on:
        assert on.watch.condition.state is AWAY
        await on.sees(OK)
        left = [key async for key in on.client.scan_iter()]
        assert len(left) <= 3
        for key in left:
            assert 0 < await on.client.pttl(key) <= 60_000
    assert lines(said.records) == []


async def test_an_engine_that_dies_and_comes_back(
    victim: Engine, said: pytest.LogCaptureFixture
) -> None:
    async with watched(unix(victim)) as on:
        await on.sees(OK)
        victim.kill()
        await on.sees(AWAY, "cannot be reached")
        await victim.start()
        await on.sees(OK)
        assert on.counters.store_troubles == 1
    assert lines(said.records) == [
        "WARNING the store is away: it cannot be reached",
        "INFO the store is well again",
    ]


async def test_an_engine_that_is_away_at_the_start(
    short: Path, said: pytest.LogCaptureFixture
) -> None:
    engine = Engine("valkey", short)
    try:
        async with watched(unix(engine)) as on:
            await on.sees(AWAY, "cannot be reached")
            await engine.start()
            await on.sees(OK)
    finally:
        engine.kill()
    assert lines(said.records) == [
        "WARNING the store is away: it cannot be reached",
        "INFO the store is well again",
    ]


async def test_a_failed_call_is_looked_into_at_once(victim: Engine) -> None:
    client = redis_client.connect(unix(victim))
    guard = RedisGuard(client, pause=0)
    watch = StoreWatch(client, guard, "me", StoreCounters(), interval=3600, pause=0.01)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch.run)

        async def well() -> bool:
            return watch.condition.state is OK

        await until(well)
        victim.kill()
        with pytest.raises(StoreUnavailable):
            await guard.run(client.ping)

        async def away() -> bool:
            return watch.condition.state is AWAY

        await until(away)
        tasks.cancel_scope.cancel()
    await redis_client.close(client)


@pytest.mark.parametrize(
    ("trouble", "well", "reason"),
    [
        (
            {"maxmemory-policy": "allkeys-lru"},
            {"maxmemory-policy": "noeviction"},
            "its maxmemory-policy is allkeys-lru",
        ),
        ({"appendonly": "no"}, {"appendonly": "yes"}, "it keeps nothing on disk"),
        ({"appendonly": "no"}, {"save": "3600 1"}, "it keeps nothing on disk"),
        ({"maxmemory": "1"}, {"maxmemory": "0"}, "it is full: its maxmemory is used up"),
    ],
)
async def test_settings_that_lose_responses(
    victim: Engine,
    said: pytest.LogCaptureFixture,
    trouble: dict[str, str],
    well: dict[str, str],
    reason: str,
) -> None:
    async with watched(unix(victim)) as on, victim.client() as admin:
        await on.sees(OK)
        for name, value in trouble.items():
            await admin.config_set(name, value)
        await on.sees(DEGRADED, reason)
        for name, value in well.items():
            await admin.config_set(name, value)
        await on.sees(OK)
    first, last = lines(said.records)
    assert first.startswith(f"WARNING the store is degraded: {reason}")
    assert last == "INFO the store is well again"


@pytest.mark.parametrize(
    ("rights", "state", "reason"),
    [
        ("~* +@all -eval -evalsha", DEGRADED, "its ACL does not allow EVALSHA"),
        ("~* +@all -rpush", DEGRADED, "its ACL does not allow "),
        ("~* +@all -hmget", DEGRADED, "its ACL does not allow "),
        ("~other:* +@all", DEGRADED, "its ACL does not allow the gateway's keys"),
        ("~multilane:* +@all", OK, None),
        ("~multilane:* +@all -@admin -@dangerous", OK, None),  # neither INFO nor CONFIG
    ],
)
async def test_an_acl(victim: Engine, rights: str, state: StoreState, reason: str | None) -> None:
    async with victim.client() as client:
        admin: Any = client
        await admin.execute_command("ACL", "SETUSER", "gate", "on", ">right", *rights.split())
        async with watched(unix(victim, "gate:right@")) as on:
            await on.sees(state, *([] if reason is None else [reason]))
            await admin.execute_command("ACL", "SETUSER", "gate", "~*", "+@all")
            await on.sees(OK)
        async with watched(unix(victim, "gate:wrong@")) as on:
            await on.sees(AWAY, "it refuses the user or the password")


async def test_a_read_only_replica(victim: Engine, said: pytest.LogCaptureFixture) -> None:
    async with watched(unix(victim)) as on, victim.client() as admin:
        await on.sees(OK)
        await admin.replicaof("127.0.0.1", str(free_port()))
        await on.sees(DEGRADED, "it is a read-only replica")
        await admin.replicaof("NO", "ONE")
        await on.sees(OK)
    assert lines(said.records) == [
        "WARNING the store is degraded: it is a read-only replica",
        "INFO the store is well again",
    ]


async def test_an_engine_that_hangs(victim: Engine) -> None:
    async with watched(unix(victim)) as on:
        await on.sees(OK)
        victim.pause()
        await on.sees(AWAY, "it does not answer in time")
        victim.resume()
        await on.sees(OK)


@pytest.fixture
async def cluster(short: Path) -> AsyncIterator[tuple[Engine, int]]:
    """A cluster of one, without slots, and its port."""
    port = free_port()
    engine = Engine(
        *("valkey", short, "--port", str(port), "--bind", "127.0.0.1", "--cluster-enabled", "yes"),
        *("--cluster-port", str(free_port())),
    )
    await engine.start()
    yield engine, port
    engine.kill()


@pytest.mark.parametrize("slots", [(0, 8000), (0, 16382)])
async def test_a_cluster_that_lacks_slots(
    cluster: tuple[Engine, int], slots: tuple[int, int]
) -> None:
    engine, port = cluster
    async with engine.client() as client:
        admin: Any = client
        await admin.execute_command("CLUSTER", "ADDSLOTSRANGE", *slots)
        async with watched(f"redis+cluster://127.0.0.1:{port}") as on:
            await on.sees(AWAY, "its cluster does not serve all slots")
            await admin.execute_command("CLUSTER", "ADDSLOTSRANGE", slots[1] + 1, 16383)
            await on.sees(OK)
        async with watched(f"redis://127.0.0.1:{port}") as on:
            await on.sees(DEGRADED, "it is a node of a cluster: use redis+cluster://")


#: What an old but willing engine would say to a look.
WILLING = {
    b"EVALSHA": bulk(b"ok"),
    b"SET": b"$-1\r\n",
    b"HGET": bulk(b"b"),
    b"LRANGE": b"*1\r\n" + bulk(b"b"),
    b"HMGET": b"*1\r\n" + bulk(b"b"),
    b"PTTL": b":59999\r\n",
    b"PEXPIRE": b":1\r\n",
    b"EXISTS": b":1\r\n",
    b"DEL": b":1\r\n",
}


@pytest.mark.parametrize(
    ("version", "state"),
    [("5.0.14", DEGRADED), ("6.0.20", DEGRADED), ("6.2.0", OK), ("8.2.1", OK), ("unstable", OK)],
)
async def test_an_old_engine(version: str, state: StoreState) -> None:
    def answer(words: list[bytes]) -> bytes:
        info = f"# Server\r\nredis_version:{version}\r\nrole:master\r\naof_enabled:1\r\n".encode()
        return WILLING.get(words[0], bulk(info) if words[0] == b"INFO" else b"+OK\r\n")

    reasons = [f"its version is {version[:3]}, and at least 6.2 is needed"]
    async with scripted_redis(answer) as url, watched(url) as on:
        await on.sees(state, *(reasons if state is DEGRADED else []))


@pytest.mark.parametrize("answer", [b":7\r\n", b"+PONG\r\n", b"*0\r\n", bulk(b"\xff\xfe")])
async def test_an_engine_that_makes_no_sense(answer: bytes) -> None:
    async with scripted_redis(lambda words: answer) as url, watched(url) as on:
        await on.sees(AWAY, "its answers make no sense")


async def test_something_else_behind_the_port() -> None:
    reply = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
    async with scripted_redis(lambda words: reply) as url, watched(url) as on:

        async def seen() -> bool:
            return "not asked yet" not in on.watch.condition.reasons[0]

        await until(seen)
        assert on.watch.condition.state is AWAY


@pytest.mark.parametrize(
    "error", [ValueError("x"), OSError(111, "no"), KeyError(), StoreUnavailable("what?")]
)
def test_any_error_says_something(error: Exception) -> None:
    condition = refusal(error)
    assert condition.state is AWAY
    assert len(condition.reasons) == 1
