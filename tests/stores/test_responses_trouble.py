"""What can break under the response store: lost replies, other processes, engines that are away."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anyio
import pytest
from redis.asyncio import RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError

from lanes.history.archive import Archive, ArchiveUnavailable
from lanes.stores.base import MAX_CHAIN, UnreadableResponse
from lanes.stores.redis import RedisResponseStore
from steering.errors import StoreUnavailable
from steering.redis.guard import RedisGuard
from tests.support.hang_guard import HANG
from tests.support.redis_engine import Engine
from tests.support.stored_chains import KEY, grow, history, response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from redis.asyncio import Redis


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
    return RedisResponseStore(client, prefix="t")


class Faulty:
    """A client whose command number `breaks` is carried out, while its reply is lost."""

    def __init__(self, client: Redis, breaks: int) -> None:
        self._client = client
        self._left = breaks
        self.broke = False

    async def _reply(self, answer: Any) -> Any:
        answer = await answer
        self._left -= 1
        if self._left == 0:
            self.broke = True
            raise ConnectionError("the reply is lost")
        return answer

    async def evalsha(self, *args: Any) -> Any:
        return await self._reply(self._client.evalsha(*args))

    async def eval(self, *args: Any) -> Any:
        return await self._reply(self._client.eval(*args))

    async def hmget(self, *args: Any) -> Any:
        return await self._reply(self._client.hmget(*args))

    def pipeline(self, *, transaction: bool) -> Any:
        pipeline: Any = self._client.pipeline(transaction=transaction)
        execute = pipeline.execute
        pipeline.execute = lambda: self._reply(execute())
        return pipeline


@pytest.mark.parametrize("breaks", range(1, 13))
async def test_a_save_whose_reply_was_lost_is_done_again(
    client: Redis, store: RedisResponseStore, breaks: int
) -> None:
    await grow(store, "a", "b", "c")
    await store.save(response("x", "b"))
    await store.save(response("x2", "x"))
    faulty = RedisResponseStore(Faulty(client, breaks), prefix="t")  # type: ignore[arg-type]
    await faulty.save(response("y", "x"))
    await faulty.save(response("d", "c"))
    await faulty.save(response("z", "y"))
    assert await history(store, "y") == ["a", "b", "x", "y"]
    assert await history(store, "z") == ["a", "b", "x", "y", "z"]
    assert await history(store, "d") == ["a", "b", "c", "d"]
    branches = [key async for key in client.scan_iter("t:branch:*")]
    lengths = {key.decode().rpartition(":")[2]: await client.llen(key) for key in branches}
    assert lengths == {"a": 8, "x": 4, "y": 4}


@pytest.mark.parametrize("breaks", [1, 2])
async def test_a_deletion_whose_reply_was_lost_is_done_again(
    client: Redis, store: RedisResponseStore, breaks: int
) -> None:
    await grow(store, "a", "b")
    faulty = Faulty(client, breaks)
    other = RedisResponseStore(faulty, prefix="t")  # type: ignore[arg-type]
    assert await other.delete(KEY, "b")
    assert faulty.broke
    assert not await store.delete(KEY, "b")
    assert await client.llen(f"t:branch:{KEY}:a") == 2


async def test_a_parent_deleted_by_another_process_meanwhile(
    client: Redis, store: RedisResponseStore
) -> None:
    """The child is whole or no parent at all, never a chain with a hole."""
    other = RedisResponseStore(client, prefix="t")
    await grow(store, "a", "b", "c")
    assert await other.delete(KEY, "c")  # a tip: its items are gone
    await store.save(response("d", "c"))
    await other.save(response("c2", "b"))  # where it was
    await store.save(response("d2", "c"))
    assert await store.load(KEY, "d2", MAX_CHAIN) is None
    assert await store.load(KEY, "d", MAX_CHAIN) is None
    assert await store.get(KEY, "d") is not None
    await store.save(response("e", "b"))
    assert await other.delete(KEY, "b")  # not a tip: its items are still there
    await store.save(response("f", "b"))
    assert await history(other, "f") == ["a", "b", "f"]


async def test_a_response_deleted_while_it_is_read(
    client: Redis, store: RedisResponseStore
) -> None:
    await grow(store, "a", "b", "c")

    class Late(RedisResponseStore):
        async def _look_up(self, key_id: str, response_id: str) -> Any:
            place = await super()._look_up(key_id, response_id)
            await store.delete(KEY, "c")
            await store.save(response("d", "b"))
            return place

    assert await Late(client, prefix="t").load(KEY, "c", MAX_CHAIN) is None
    assert await history(store, "d") == ["a", "b", "d"]


@pytest.mark.parametrize("lost", ["a", "x"])
async def test_a_chain_that_lost_a_part_is_not_found(
    client: Redis, store: RedisResponseStore, lost: str
) -> None:
    await grow(store, "a", "b", "c")
    await store.save(response("x", "b"))
    await store.save(response("y", "x"))
    await client.delete(f"t:branch:{KEY}:{lost}")
    assert await store.load(KEY, "y", MAX_CHAIN) is None
    await store.save(response("z", "y"))
    assert (await store.load(KEY, "z", MAX_CHAIN)) is None


@pytest.mark.parametrize("junk", [b"", b"\x07new", b"\x01not deflated", b"\x00\xc1", b"\x00\x90"])
async def test_what_cannot_be_read_is_said_to_be_so(
    client: Redis, store: RedisResponseStore, junk: bytes
) -> None:
    raw: Any = client
    await grow(store, "a", "b")
    await raw.lset(f"t:branch:{KEY}:a", 1, junk)
    with pytest.raises(UnreadableResponse, match="cannot be read"):
        await store.load(KEY, "b", MAX_CHAIN)
    with pytest.raises(ArchiveUnavailable, match="cannot be read") as caught:
        await Archive(store, MAX_CHAIN).find(KEY, "b")
    assert (caught.value.status, caught.value.code) == (503, "store_unavailable")
    if junk:
        await client.hset(f"t:response:{KEY}:b", "at", junk)
        with pytest.raises(UnreadableResponse, match="cannot be read"):
            await store.load(KEY, "b", MAX_CHAIN)


async def test_scripts_that_the_engine_forgot(client: Redis, store: RedisResponseStore) -> None:
    await store.save(response("a"))
    await client.script_flush()
    await store.save(response("b", "a"))
    await client.script_flush()
    assert await store.delete(KEY, "a")
    assert await history(store, "b") == ["a", "b"]


async def test_an_engine_that_was_killed_and_comes_back(engine: Engine) -> None:
    async with engine.client() as client:
        store = RedisResponseStore(client)
        await grow(store, "a", "b", "c")
        await store.save(response("x", "b"))
        engine.kill()
        await _unavailable(store)
        await engine.start()
        assert await history(store, "c") == ["a", "b", "c"]
        await store.save(response("d", "c"))
    async with engine.client() as client:
        again = RedisResponseStore(client)
        assert await history(again, "d") == ["a", "b", "c", "d"]
        assert await history(again, "x") == ["a", "b", "x"]
        assert await again.get(KEY, "a") == b'{"id":"a"}'


async def test_an_engine_that_hangs(engine: Engine, client: Redis) -> None:
    store = RedisResponseStore(client, guard=RedisGuard(client, deadline=0.6))
    await grow(store, "a", "b")
    engine.pause()
    await _unavailable(store)
    engine.resume()
    assert await history(store, "b") == ["a", "b"]
    await store.save(response("c", "b"))
    assert await history(store, "c") == ["a", "b", "c"]


async def _unavailable(store: RedisResponseStore) -> None:
    archive = Archive(store, MAX_CHAIN)
    with pytest.raises(ArchiveUnavailable, match="not available") as fault:
        await archive.find(KEY, "b")
    assert (fault.value.status, fault.value.code) == (503, "store_unavailable")
    for ask in (
        lambda: store.save(response("late", "b")),
        lambda: store.load(KEY, "b", MAX_CHAIN),
        lambda: store.get(KEY, "b"),
        lambda: store.delete(KEY, "nope"),
    ):
        with pytest.raises(StoreUnavailable) as caught, anyio.fail_after(HANG):
            await ask()
        assert caught.value.__cause__ is not None


async def test_an_engine_that_is_full(client: Redis, store: RedisResponseStore) -> None:
    await grow(store, "a", "b")
    await client.config_set("maxmemory", "1mb")
    with pytest.raises(StoreUnavailable):
        await store.save(response("c", "b", body=os.urandom(4096)))
    assert await history(store, "b") == ["a", "b"]
    await client.config_set("maxmemory", "0")
    await store.save(response("c", "b"))
    assert await history(store, "c") == ["a", "b", "c"]


async def test_a_cluster(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    bus = str(port + 10000 if port < 50000 else port - 10000)
    options = ("--port", str(port), "--cluster-enabled", "yes", "--cluster-port", bus)
    engine = Engine("valkey", tmp_path, "--bind", "127.0.0.1", *options)
    await engine.start()
    try:
        async with engine.client() as client:
            raw: Any = client
            await raw.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            state = b""
            while b"cluster_state:ok" not in state:
                state = await raw.execute_command("CLUSTER", "INFO")
        cluster = RedisCluster(host="127.0.0.1", port=port, retry=Retry(NoBackoff(), 1))
        store = RedisResponseStore(cluster, prefix=uuid4().hex)
        await grow(store, "a", "b", "c")
        await store.save(response("x", "b"))
        await store.save(response("y", "x"))
        assert await history(store, "y") == ["a", "b", "x", "y"]
        assert await store.delete(KEY, "x")
        assert await history(store, "y") == ["a", "b", "x", "y"]
        await cluster.aclose()
    finally:
        engine.kill()
