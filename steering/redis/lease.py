"""The sign of life of a process that decides on submissions, and the judgement on others'."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final, NoReturn

import anyio

from steering.errors import StoreUnavailable
from steering.redis.guard import RedisGuard

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from steering.redis.guard import Client

log = logging.getLogger("multilane.steering")

#: Seconds after its last sign of life at which an owner is given up.
LEASE: Final = 15.0
#: Seconds between two tries while the engine is away: well below the pause before judging.
AGAIN: Final = 1.0


class Lease:
    """This process's lease. Keep `run` running for as long as the process owns anything."""

    def __init__(
        self,
        client: Client,
        owner: str,
        *,
        ttl: float = LEASE,
        prefix: str = "multilane",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.owner = owner
        self._client = client
        self._guard = RedisGuard(client)
        self._ttl = ttl
        self._prefix = prefix
        self._clock = clock
        self._since: float | None = None  # held without a break
        self._until = 0.0

    @property
    def held(self) -> bool:
        """Whether others see that this process lives."""
        return self._clock() < self._until

    async def refresh(self) -> None:
        """Give one sign of life. Raises StoreUnavailable."""
        asked = self._clock()
        try:
            found = await self._guard.run(self._set)
        except StoreUnavailable:
            self._since = None
            raise
        if found is None or self._since is None:
            self._since = self._clock()
        self._until = asked + self._ttl

    async def run(self) -> NoReturn:
        """Give signs of life until cancelled, whatever the engine does meanwhile."""
        away = False
        while True:
            try:
                await self.refresh()
            except StoreUnavailable as error:
                if not away:
                    log.warning("the store is away, nothing can be steered: %s", error)
                away = True
                await anyio.sleep(min(AGAIN, self._ttl / 3))
            else:
                if away:
                    log.info("the store is back")
                away = False
                await anyio.sleep(self._ttl / 3)

    async def release(self) -> None:
        """Be gone at once, at an orderly end; what is left undecided is `dropped`."""
        self._since, self._until = None, 0.0
        await self._guard.run(lambda: self._client.delete(self._key(self.owner)))

    async def gone(self, owners: Collection[str]) -> set[str]:
        """Those of the owners that have no lease. Raises StoreUnavailable.

        After an outage of the engine every lease has run out, and the living need a moment to
        renew theirs. So nobody is judged before our own was held without a break for that long.
        """
        others = sorted(set(owners) - {self.owner})
        if not others or self._since is None or self._clock() - self._since < self._ttl / 3:
            return set()

        async def ask() -> list[Any]:
            pipeline = self._client.pipeline(transaction=False)
            for owner in others:
                pipeline.exists(self._key(owner))
            return await pipeline.execute()

        found = await self._guard.run(ask)
        return {owner for owner, there in zip(others, found, strict=True) if not there}

    async def _set(self) -> Any:
        """What was there before; None if the lease had run out."""
        return await self._client.set(
            self._key(self.owner), b"1", px=max(1, int(self._ttl * 1000)), get=True
        )

    def _key(self, owner: str) -> str:
        return f"{self._prefix}:owner:{owner}"
