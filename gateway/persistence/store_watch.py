"""SHELL: looks after the engine of the stores, and says when it is in trouble and well again."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

import anyio
from redis.asyncio import RedisCluster

from gateway.persistence.store_condition import (
    StoreCondition,
    StoreState,
    cluster_complaints,
    complaints,
    forgets_at_its_end,
    refusal,
)
from steering.errors import SenselessAnswer, StoreUnavailable
from steering.redis.answers import integers, optional_bytes, strings, word
from steering.redis.guard import RedisGuard
from steering.redis.scripts import LuaScript

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steering.counters import StoreCounters
    from steering.redis.guard import RedisClient

log = logging.getLogger("multilane.stores")

#: Seconds between two looks at an engine that is well.
INTERVAL: Final = 10.0
#: Seconds between two looks at one in trouble, and the least between any two.
PAUSE: Final = 1.0
#: Milliseconds for which the keys of a look are kept.
_LIFE: Final = 60_000

#: Does whatever the scripts of the stores do, so that a right that is missing is found at once.
#: KEYS: a list, a hash, in one slot. ARGV: milliseconds for which they are kept.
PROBE: Final = LuaScript("""
redis.call('RPUSH', KEYS[1], 'a', 'b')
redis.call('LSET', KEYS[1], 0, 'c')
redis.call('LTRIM', KEYS[1], -1, -1)
redis.call('LINDEX', KEYS[1], 0)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[2], 'a', 'b')
redis.call('HGET', KEYS[2], 'a')
redis.call('HMGET', KEYS[2], 'a', 'b')
redis.call('HEXISTS', KEYS[2], 'a')
redis.call('HDEL', KEYS[2], 'b')
redis.call('EXPIRE', KEYS[2], 60)
redis.call('PTTL', KEYS[2])
redis.call('EXISTS', KEYS[2])
redis.call('HGETALL', KEYS[2])
redis.call('TIME')
return 'ok'
""")


class StoreWatch:
    """Looks at the engine now and then, and soon after a call failed. Keep `run` running.

    Args:
        client: The client of the engine.
        guard: Makes the stores' calls, and tells when one failed.
        owner: The id of this process.
        counters: Where troubles are counted.
        prefix: What all keys begin with.
        interval: Seconds between two looks at an engine that is well.
        pause: Seconds between two looks at one in trouble, and the least between any two.
    """

    def __init__(
        self,
        client: RedisClient,
        guard: RedisGuard,
        owner: str,
        counters: StoreCounters,
        *,
        prefix: str = "multilane",
        interval: float = INTERVAL,
        pause: float = PAUSE,
    ) -> None:
        self._client: Any = client
        self._guard = RedisGuard(client)  # its own: no queue is before it, and nothing is counted
        self._counters = counters
        self._keys = [f"{prefix}:{{probe-{owner}}}:{kind}" for kind in ("list", "hash", "string")]
        self._interval = interval
        self._pause = pause
        self._called = anyio.Event()
        guard.failed = lambda: self._called.set()
        #: How the engine is, as of the last look.
        self.condition = StoreCondition(StoreState.AWAY, ("it was not asked yet",))
        self._troubled = False

    async def run(self) -> NoReturn:
        """Look at the engine until cancelled."""
        while True:
            looked_at = time.monotonic()
            self._note(*await self._look())
            self._called = anyio.Event()
            well = self.condition.state is StoreState.OK
            with anyio.move_on_after(self._interval if well else self._pause):
                await self._called.wait() if well else await anyio.sleep_forever()
            await anyio.sleep(max(0.0, looked_at + self._pause - time.monotonic()))

    def _note(self, condition: StoreCondition, detail: str) -> None:
        """Take a condition as the present one; log it if it is another than before."""
        before, self.condition = self.condition, condition
        if condition.state is StoreState.OK:
            if self._troubled:
                log.info("the store is well again")
            self._troubled = False
        elif condition != before:
            self._counters.store_troubles += not self._troubled
            self._troubled = True
            why = "; ".join(condition.reasons)
            log.warning("the store is %s: %s%s", condition.state, why, detail)

    async def _look(self) -> tuple[StoreCondition, str]:
        """Return how the engine is, and what the log says beside it."""
        condition, detail = StoreCondition(StoreState.OK), ""
        try:
            await self._guard.run(self._probe)
        except StoreUnavailable as error:
            cause = error.__cause__ or error
            condition, detail = refusal(cause), f" ({cause})"
        if condition.state is StoreState.AWAY:
            return condition, detail
        found = await self._complaints()
        reasons = tuple(dict.fromkeys((*condition.reasons, *found)))
        return StoreCondition(StoreState.DEGRADED if reasons else StoreState.OK, reasons), detail

    async def _probe(self) -> None:
        """Do what the stores do, and check the answers."""
        items, fields, text = self._keys
        word(await PROBE.run(self._client, [items, fields], [_LIFE]), b"ok")
        optional_bytes(await self._client.set(text, b"1", px=_LIFE, get=True))
        word(await self._client.hget(fields, "a"), b"b")
        pipeline = self._client.pipeline(transaction=False)
        pipeline.lrange(items, 0, -1)
        pipeline.hmget(fields, ["a"])
        pipeline.pttl(items)
        pipeline.pexpire(items, _LIFE)
        pipeline.exists(items)
        pipeline.delete(text)
        listed, hashed, *numbers = await pipeline.execute()
        strings(listed)
        strings(hashed)
        integers(numbers, 4)

    async def _complaints(self) -> list[str]:
        """Return what is wrong by the engine's own account, as far as it may be asked."""
        clustered = isinstance(self._client, RedisCluster)
        found: list[str] = []
        with suppress(StoreUnavailable):  # an ACL may forbid to ask
            for info in await self._guard.run(self._infos):
                found += complaints(info, clustered=clustered)
                if forgets_at_its_end(info, await self._save_setting(info)):
                    found.append("it keeps nothing on disk: neither an append-only file nor RDB")
        if clustered:
            with suppress(StoreUnavailable):
                found += cluster_complaints(await self._guard.run(self._cluster_info))
        return found

    async def _infos(self) -> list[Mapping[str, Any]]:
        """Return what each primary says of itself."""
        nodes = {}
        if isinstance(self._client, RedisCluster):
            nodes["target_nodes"] = RedisCluster.PRIMARIES
        info = _mapping(await _parsed(self._client.info(**nodes)))
        return _by_node(info)

    async def _cluster_info(self) -> Mapping[str, Any]:
        return _mapping(await _parsed(self._client.cluster_info()))

    async def _save_setting(self, info: Mapping[str, Any]) -> Any:
        """Return the setting `save`; None where the engine does not tell, or it does not matter."""
        if info.get("aof_enabled") != 0:
            return None

        async def ask() -> Any:
            return _mapping(await _parsed(self._client.config_get("save"))).get("save")

        with suppress(StoreUnavailable):  # managed engines do not know CONFIG
            return await self._guard.run(ask)
        return None


def _by_node(info: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the parts of an answer that is one engine's, or holds one for each node."""
    nodes = [part for part in info.values() if isinstance(part, dict) and "redis_version" in part]
    return [*nodes] or [info]


def _mapping(answer: Any) -> Mapping[str, Any]:
    if not isinstance(answer, dict):
        raise SenselessAnswer
    return answer


async def _parsed(asked: Any) -> Any:
    """Return an answer that the client library parses, whatever it is."""
    try:
        return await asked
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise SenselessAnswer from error
