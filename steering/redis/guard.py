"""The guard of every call to an engine: it bounds the time, repairs once and renames errors."""

from __future__ import annotations

import asyncio
import builtins
import time
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

from steering.counters import StoreCounters
from steering.errors import SenselessAnswer, StoreUnavailable
from steering.redis.deadline import Deadline
from steering.redis.fair_turns import FairTurns

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")
RedisClient = Redis | RedisCluster

#: Seconds within which a call has its answer or has failed.
DEADLINE: Final = 1.7
#: The share of the deadline for the first try, so that a second can find a better connection.
FIRST_TRY: Final = 0.6
#: Seconds before the second try: a bundled engine that died is back by then.
RETRY_PAUSE: Final = 0.15
#: Calls at a time; the others wait their turn, within the deadline.
MAX_CALLS: Final = 16
#: Calls at a time of one key, so that there is room for the others.
MAX_CALLS_PER_KEY: Final = 12
#: The key of the process's own calls.
OWN_CALLS: Final = ""
#: After these a second try may reach another connection, another address or a new primary.
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
#: After these the idle connections are no better: their peer may be gone, or no longer primary.
_STALE: Final = (builtins.TimeoutError, TimeoutError, ReadOnlyError)


class RedisGuard:
    """Bounds and repairs the calls to one engine. A call may run twice, so it is idempotent.

    All stores of a process share one, so that the calls are bounded in all, and by key (D29).

    Args:
        client: The client that the calls use.
        deadline: Seconds for a call, its second try included.
        pause: Seconds before the second try.
        counters: Where failed calls are counted.
    """

    def __init__(
        self,
        client: RedisClient,
        *,
        deadline: float = DEADLINE,
        pause: float = RETRY_PAUSE,
        counters: StoreCounters | None = None,
    ) -> None:
        self._client = client
        self._deadline = deadline
        self._pause = pause
        self._counters = counters or StoreCounters()
        self._turns = FairTurns(MAX_CALLS, MAX_CALLS_PER_KEY)
        #: Called after a call that failed.
        self.failed: Callable[[], None] = _nothing

    async def run(self, ask: Callable[[], Awaitable[T]], key_id: str = OWN_CALLS) -> T:
        """Return what `ask` returns, within the deadline.

        A cancelled scope waits for the call: a pool whose connection comes back under repeated
        cancellation would lose it, and a half-sent write would leave its outcome unknown.

        Args:
            ask: Makes the call.
            key_id: The API key for which it is made.

        Raises:
            StoreUnavailable: The engine refused, made no sense or did not answer in time.
        """
        since = time.monotonic()
        with anyio.CancelScope(shield=True):
            try:
                with Deadline(self._deadline):
                    async with self._turns.turn(key_id):
                        return await self._twice(ask)
            except (RedisError, RedisClusterException, OSError) as error:  # TimeoutError is one
                self._count()
                raise StoreUnavailable(_reason(error)) from error
            except SenselessAnswer:
                self._count()
                raise
            except (AttributeError, LookupError, TypeError, ValueError) as error:
                if not _is_the_librarys(error):
                    raise
                self._count()
                raise SenselessAnswer from error
            finally:
                self._counters.call_seconds.append(time.monotonic() - since)
        raise AssertionError  # a shield swallows nothing

    def _count(self) -> None:
        self._counters.store_calls_failed += 1
        self.failed()

    async def _twice(self, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            with Deadline(self._deadline * FIRST_TRY):
                return await ask()
        except _REPAIRABLE as error:
            await self._repair(error)
        return await ask()

    async def _repair(self, error: Exception) -> None:
        pool = getattr(self._client, "connection_pool", None)  # a cluster finds its way by itself
        if isinstance(error, _STALE) and pool is not None:
            await pool.disconnect(inuse_connections=False)
        await asyncio.sleep(self._pause)


def _reason(error: Exception) -> str:
    return f"the store failed: {error}" if str(error) else "the store did not answer in time"


def _is_the_librarys(error: Exception) -> bool:
    """Return whether the client library itself broke, which it does on an answer of nonsense."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else trace.tb_frame.f_globals.get("__name__", "")
    return module.partition(".")[0] == "redis"


def _nothing() -> None:
    """Do nothing about a failed call."""
