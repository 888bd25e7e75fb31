"""The lease of a process that owns submissions, and which other owners have lost theirs (D16)."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final, NoReturn

import anyio

from steering.errors import StoreUnavailable
from steering.redis.answers import integers, optional_bytes
from steering.redis.guard import RedisGuard

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from steering.redis.guard import RedisClient

log = logging.getLogger("multilane.steering")

#: Seconds a lease lasts after its last renewal.
LEASE_TTL: Final = 15.0
#: Seconds between two tries while the engine is away: well below the wait before judging others.
RETRY_PAUSE: Final = 1.0


class Lease:
    """The lease of this process. Keep `run` running for as long as the process owns submissions.

    Args:
        client: The engine that holds the leases.
        owner: The id of this process, unlike that of any other.
        ttl: Seconds a lease lasts without renewal.
        prefix: What all keys begin with.
        clock: Returns seconds that never go backwards.
        guard: Makes the calls; one of its own if there is none.
    """

    def __init__(
        self,
        client: RedisClient,
        owner: str,
        *,
        ttl: float = LEASE_TTL,
        prefix: str = "multilane",
        clock: Callable[[], float] = time.monotonic,
        guard: RedisGuard | None = None,
    ) -> None:
        self.owner = owner
        self._client = client
        self._guard = guard or RedisGuard(client)
        self._ttl = ttl
        self._prefix = prefix
        self._clock = clock
        # Since when it is held without a break; None while it is not.
        self._held_since: float | None = None
        self._held_until = 0.0

    @property
    def held(self) -> bool:
        """Whether other processes see this one as alive."""
        return self._clock() < self._held_until

    async def renew(self) -> None:
        """Renew the lease once.

        Raises:
            StoreUnavailable: The engine is away, and the lease may run out.
        """
        asked_at = self._clock()
        try:
            previous = await self._guard.run(self._set)
        except StoreUnavailable:
            self._held_since = None
            raise
        if previous is None or self._held_since is None:
            self._held_since = self._clock()
        self._held_until = asked_at + self._ttl

    async def run(self) -> NoReturn:
        """Renew the lease until cancelled, whatever the engine does meanwhile."""
        while True:
            try:
                await self.renew()
            except StoreUnavailable as error:
                log.debug("the lease could not be renewed: %s", error)  # StoreWatch warns
                await anyio.sleep(min(RETRY_PAUSE, self._ttl / 3))
            else:
                await anyio.sleep(self._ttl / 3)

    async def release(self) -> None:
        """Give the lease up at an orderly end, so that open submissions are `dropped` at once.

        Raises:
            StoreUnavailable: The engine is away; the lease runs out by itself.
        """
        self._held_since, self._held_until = None, 0.0
        await self._guard.run(lambda: self._client.delete(self._key(self.owner)))

    async def gone(self, owners: Collection[str]) -> set[str]:
        """Return those owners that hold no lease.

        After an outage of the engine every lease has run out, and live processes need a moment to
        renew theirs. So this process judges nobody before it held its own lease for a third of
        the TTL without a break.

        Raises:
            StoreUnavailable: The engine is away.
        """
        others = sorted(set(owners) - {self.owner})
        since = self._held_since
        if not others or since is None or self._clock() - since < self._ttl / 3:
            return set()

        async def ask() -> list[int]:
            pipeline = self._client.pipeline(transaction=False)
            for owner in others:
                pipeline.exists(self._key(owner))
            return integers(await pipeline.execute(), len(others))

        counts = await self._guard.run(ask)
        return {owner for owner, count in zip(others, counts, strict=True) if not count}

    async def _set(self) -> bytes | None:
        """Write the lease; return what was there before, None if the lease had run out."""
        previous = await self._client.set(
            self._key(self.owner), b"1", px=max(1, int(self._ttl * 1000)), get=True
        )
        return optional_bytes(previous)

    def _key(self, owner: str) -> str:
        return f"{self._prefix}:owner:{owner}"
