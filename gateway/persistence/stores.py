"""What outlives a socket: submissions and stored responses, in memory or on an engine."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio

from gateway.limits.redis import RedisLimitStore
from gateway.limits.store import MemoryLimitStore
from gateway.persistence.redis_client import close, connect
from gateway.persistence.store_condition import StoreCondition, StoreState
from gateway.persistence.store_watch import StoreWatch
from lanes.history.archive import Archive
from lanes.stores.claims import MemoryClaimStore
from lanes.stores.inherited import (
    InheritedBackgroundStore,
    InheritedConversationStore,
    InheritedResponseStore,
)
from lanes.stores.memory import MemoryResponseStore
from lanes.stores.memory_background import MemoryBackgroundStore
from lanes.stores.memory_conversations import MemoryConversationStore
from lanes.stores.redis import RedisResponseStore
from lanes.stores.redis_background import RedisBackgroundStore
from lanes.stores.redis_claims import RedisClaimStore
from lanes.stores.redis_conversations import RedisConversationStore
from lanes.stores.sealing_keys import MemorySealingKeyStore, RedisSealingKeyStore
from lanes.stores.seals import Seals
from steering.clerk import Clerk
from steering.counters import StoreCounters
from steering.errors import StoreUnavailable
from steering.redis.guard import RedisGuard
from steering.redis.lease import Lease
from steering.stores.inherited import InheritedSteerStore
from steering.stores.memory import MemorySteerStore
from steering.stores.redis import RedisSteerStore

if TYPE_CHECKING:
    from gateway.config.settings import Settings
    from gateway.limits.store import LimitStore
    from lanes.stores.background import BackgroundStore
    from lanes.stores.base import ResponseStore
    from lanes.stores.claims import ClaimStore
    from lanes.stores.conversations import ConversationStore
    from steering.stores.base import SteerStore
    from steering.stores.inherited import Homes

#: Seconds for the last writes of each store when the gateway ends.
_LAST_WRITES = 3.0


class Stores:
    """The stores of one process, in memory or on the engine that the settings name.

    Keep `run` running. `homes` says under which keys the records of an owner are, if those of named
    keys may be under several.

    Attributes:
        steers: The store of submissions, for reading.
        clerk: Writes submissions to it.
        claims: Who answers a create that may be sent again.
        archive: Reads and writes stored responses.
        seals: Seal what clients keep.
        background: How responses are that run in the background.
        counters: What happened to them.
        limits: What all processes know of the tenants' limits.
        owner: The id of this process, unlike that of any other.
    """

    def __init__(self, settings: Settings, homes: Homes | None = None) -> None:
        self.owner = owner = secrets.token_hex(8)
        self.counters = StoreCounters()
        sealing = [key.get_secret_value() for key in settings.compaction_keys]
        self._lease: Lease | None = None
        self._watch: StoreWatch | None = None
        self._attending: anyio.CancelScope | None = None  # while `run` runs, on an engine
        self._left = anyio.Event()
        inherits = homes is not None and settings.keys_file is not None
        homes = homes if inherits and homes is not None else _own
        self.steers: SteerStore
        responses: ResponseStore
        conversations: ConversationStore
        self.claims: ClaimStore
        self.background: BackgroundStore
        self.limits: LimitStore
        if settings.redis_url == "memory":
            self._client = None
            self.steers = MemorySteerStore()
            self.claims = MemoryClaimStore()
            self.limits = MemoryLimitStore()
            self.background = MemoryBackgroundStore()
            responses = MemoryResponseStore(store_ttl=settings.store_ttl)
            conversations = MemoryConversationStore(store_ttl=settings.store_ttl)
            self.seals = Seals(sealing, MemorySealingKeyStore(), homes)
        else:
            self._client = client = connect(settings.redis_url)
            guard = RedisGuard(client, counters=self.counters)
            self._watch = StoreWatch(client, guard, owner, self.counters)
            self._lease = Lease(client, owner, guard=guard)
            self.steers = RedisSteerStore(client, self._lease, guard=guard)
            self.claims = RedisClaimStore(client, guard=guard)
            self.limits = RedisLimitStore(client, guard=guard)
            self.background = RedisBackgroundStore(client, self._lease, guard=guard)
            ttl = round(settings.store_ttl)
            responses = RedisResponseStore(client, store_ttl=ttl, guard=guard)
            conversations = RedisConversationStore(client, store_ttl=ttl, guard=guard)
            self.seals = Seals(sealing, RedisSealingKeyStore(client, guard=guard), homes)
        if inherits:
            self.steers = InheritedSteerStore(self.steers, homes)
            self.background = InheritedBackgroundStore(self.background, homes)
            responses = InheritedResponseStore(responses, homes)
            conversations = InheritedConversationStore(conversations, homes)
        self.archive = Archive(
            responses, settings.max_chain, self.counters, conversations, self.seals
        )
        self.clerk = Clerk(self.steers, owner, self.counters)

    @property
    def condition(self) -> StoreCondition:
        """How the store is, as of the last look."""
        return self._watch.condition if self._watch else StoreCondition(StoreState.OK)

    def health(self) -> dict[str, Any]:
        """Return how the stores are and what they did, as `/health` shows it."""
        condition = self.condition
        return {
            "store": {"state": condition.state, "reasons": condition.reasons},
            "counters": {**self.counters.numbers(), "responses_waiting": self.archive.waiting},
        }

    async def run(self) -> None:
        """Write what is queued and renew the lease until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.clerk.run)
            tasks.start_soon(self.archive.run)
            if self._lease is not None and self._watch is not None:
                tasks.start_soon(self._attend, self._lease, self._watch)

    async def aclose(self) -> None:
        """Write what is queued, within seconds, and close the client. `run` must still run."""
        await self.clerk.flush(_LAST_WRITES)
        await self.archive.aclose(_LAST_WRITES)
        if self._lease is not None and self._client is not None:
            if self._attending is not None:
                self._attending.cancel()  # else it would ask again, and leave a connection open
                await self._left.wait()
            with suppress(StoreUnavailable):
                await self._lease.release()
            await self.steers.aclose()
            await close(self._client)

    async def _attend(self, lease: Lease, watch: StoreWatch) -> None:
        """Renew the lease and look after the engine until cancelled."""
        try:
            with anyio.CancelScope() as self._attending:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(lease.run)
                    tasks.start_soon(watch.run)
        finally:
            self._left.set()


def _own(owner: str) -> tuple[str, ...]:
    """Return the only home of records, where there are no named keys."""
    return (owner,)
