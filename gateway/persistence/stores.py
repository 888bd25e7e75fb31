"""What outlives a socket: submissions and stored responses, in memory or in a Redis."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from gateway.persistence.redis_client import close, connect
from lanes.history.archive import Archive
from lanes.stores.memory import MemoryResponseStore
from lanes.stores.redis import RedisResponseStore
from steering.clerk import Clerk
from steering.errors import StoreUnavailable
from steering.redis.lease import Lease
from steering.stores.memory import MemorySteerStore
from steering.stores.redis import RedisSteerStore

if TYPE_CHECKING:
    from gateway.config.settings import Settings
    from steering.stores.base import SteerStore

#: Seconds for what is not yet written when the gateway ends.
_LAST = 3.0


class Stores:
    """The clerk and the archive of one process, on the one engine that the settings name.

    Keep `run` running. `steers` is the store that the clerk writes to, for reading.
    """

    def __init__(self, settings: Settings) -> None:
        owner = secrets.token_hex(8)
        self._lease: Lease | None = None
        self.steers: SteerStore
        if settings.redis_url == "memory":
            self._client = None
            self.steers = MemorySteerStore()
            self.archive = Archive(
                MemoryResponseStore(store_ttl=settings.store_ttl), settings.max_chain
            )
        else:
            self._client = client = connect(settings.redis_url)
            self._lease = Lease(client, owner)
            self.steers = RedisSteerStore(client, self._lease)
            self.archive = Archive(
                RedisResponseStore(client, store_ttl=round(settings.store_ttl)), settings.max_chain
            )
        self.clerk = Clerk(self.steers, owner)

    async def run(self) -> None:
        """Write behind and keep the lease, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.clerk.run)
            tasks.start_soon(self.archive.run)
            if self._lease is not None:
                tasks.start_soon(self._lease.run)

    async def aclose(self) -> None:
        """Write what waits, within seconds, while `run` still runs."""
        await self.clerk.flush(_LAST)
        await self.archive.aclose(_LAST)
        if self._lease is not None and self._client is not None:
            with suppress(StoreUnavailable):
                await self._lease.release()
            await self.steers.aclose()
            await close(self._client)
