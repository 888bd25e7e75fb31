"""Somewhere to keep submissions, with as many owners as a test needs, of any kind of store."""

from __future__ import annotations

import secrets
import socket
from typing import TYPE_CHECKING, Any

import anyio

from gateway.persistence import redis_client
from steering.ids import steer_id
from steering.redis.lease import Lease
from steering.states import SubmissionState
from steering.stores.base import SteerRecord, SteerStore
from steering.stores.memory import MemorySteerStore
from steering.stores.redis import RedisSteerStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection
    from typing import Self

    from tests.support.redis_engine import Engine


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000.25

    def __call__(self) -> float:
        return self.now


class StorePlace:
    """Stores of several owners over the same submissions. This one is in memory."""

    def __init__(self) -> None:
        self.clock = Clock()
        self._gone: set[str] = set()
        self._memory = MemorySteerStore(self, clock=self.clock)

    async def gone(self, owners: Collection[str]) -> set[str]:
        return self._gone.intersection(owners)

    async def store(self, owner: str = "me") -> SteerStore:
        """The store of a process; it lives until it leaves."""
        return self._memory

    async def leave(self, owner: str) -> None:
        """That process is no more, and all others had time to see it."""
        self._gone.add(owner)


class RedisPlace(StorePlace):
    """The same over an engine."""

    def __init__(self, where: Engine | str) -> None:
        super().__init__()
        url = where if isinstance(where, str) else f"unix://{where.path}"
        self.client: Any = redis_client.connect(url)
        self.leases: dict[str, Lease] = {}
        # Owners of one test are strangers to those of all others.
        self.prefix = f"t{secrets.token_hex(4)}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await redis_client.close(self.client)

    async def store(self, owner: str = "me") -> RedisSteerStore:
        if owner not in self.leases:
            self.leases[owner] = Lease(self.client, owner, prefix=self.prefix, clock=self.clock)
            await self.leases[owner].renew()
        return RedisSteerStore(
            self.client, self.leases[owner], prefix=self.prefix, clock=self.clock
        )

    async def leave(self, owner: str) -> None:
        await self.leases.pop(owner).release()
        self.clock.now += 10.0  # the others have held theirs for long


async def until(ask: Callable[[], Awaitable[bool]]) -> None:
    """Ask again until it is so; the test's own timeout bounds it."""
    while True:
        if await ask():
            return
        await anyio.sleep(0.005)


async def on_file(client: Any) -> None:
    """Wait until an engine has handed all that it knows to the system, so that a kill loses none.

    As long as an fsync takes it may keep back what it said was done: `appendfsync everysec`.
    """

    async def handed() -> bool:
        return int((await client.info("persistence"))["aof_buffer_length"]) == 0

    await until(handed)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def response() -> str:
    return f"resp_{secrets.token_hex(16)}"


def record(target: str, at: float = 1_000_000.0, **fields: Any) -> SteerRecord:
    known: dict[str, Any] = {
        **{"id": steer_id(target), "key_id": "key", "target": target, "input": b'"go on"'},
        **{"owner": "me", "state": SubmissionState.ACCEPTED, "created_at": at, "updated_at": at},
    }
    return SteerRecord(**{**known, **fields})
