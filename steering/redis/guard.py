"""One way to ask an engine: bounded in time and number, repaired once, all trouble told alike."""

from __future__ import annotations

import asyncio
import builtins
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
from redis.asyncio import Redis, RedisCluster
from redis.exceptions import (
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    MasterDownError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    TimeoutError,
    TryAgainError,
)

from steering.errors import StoreUnavailable
from steering.redis.deadline import Deadline

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")
Client = Redis | RedisCluster

#: Seconds within which a call has an answer or has failed.
DEADLINE: Final = 1.7
#: The part of it that a first try may take, so that a second one can find a better connection.
FIRST: Final = 0.6
#: Seconds to wait before the second try: the bundled engine is back by then if it died.
PAUSE: Final = 0.15
#: Calls at a time; the others wait for their turn, within the deadline.
LIMIT: Final = 16
#: A second try may find another connection, another address or a new primary.
_REPAIRABLE: Final = (
    builtins.TimeoutError,
    ConnectionError,
    TimeoutError,
    ReadOnlyError,
    BusyLoadingError,
    MasterDownError,
    ClusterDownError,
    TryAgainError,
)
#: After these the idle connections are no better: their peer may be gone, or no primary any more.
_STALE: Final = (builtins.TimeoutError, TimeoutError, ReadOnlyError)


class RedisGuard:
    """Asks one engine. What is asked may be done twice, so it must be idempotent."""

    def __init__(self, client: Client, *, deadline: float = DEADLINE, pause: float = PAUSE) -> None:
        self._client = client
        self._deadline = deadline
        self._pause = pause
        self._turns = asyncio.Semaphore(LIMIT)

    async def run(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What `ask` returns. Raises StoreUnavailable, within the deadline, and nothing else.

        A cancelled scope around it waits for it: a pool whose connection is handed back under
        repeated cancellation would lose it, and half-asked writes would leave nobody wiser.
        """
        with anyio.CancelScope(shield=True):
            try:
                with Deadline(self._deadline):
                    async with self._turns:
                        return await self._twice(ask)
            except (RedisError, RedisClusterException, OSError) as error:  # TimeoutError is one
                raise StoreUnavailable(_told(error)) from error
        raise AssertionError  # a shield swallows nothing

    async def _twice(self, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            with Deadline(self._deadline * FIRST):
                return await ask()
        except _REPAIRABLE as error:
            await self._repair(error)
        return await ask()

    async def _repair(self, error: Exception) -> None:
        pool = getattr(self._client, "connection_pool", None)  # a cluster finds its way by itself
        if isinstance(error, _STALE) and pool is not None:
            await pool.disconnect(inuse_connections=False)
        await asyncio.sleep(self._pause)


def _told(error: Exception) -> str:
    return f"the store failed: {error}" if str(error) else "the store did not answer in time"
