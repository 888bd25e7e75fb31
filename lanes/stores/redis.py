"""The store of responses in Redis or Valkey, for all processes and beyond restarts (D17).

    <prefix>:branch:<key_id>:<id>    LIST: the items of responses that follow each other
    <prefix>:response:<key_id>:<id>  HASH: `at` (its location, packed), `body` (its object, packed)

A branch has the id of the response that opened it. A response goes to the end of its parent's
branch. If another came first, it opens a branch of its own and notes the way back to the root:
[(branch, position)…]. So a turn writes only its own items, and one look-up and one pipeline read a
chain. Every script has one key, hence no hash tags: a cluster spreads branches evenly. The hash is
written last, so a response that can be found is whole. All keys expire.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from lanes.stores.base import (
    STORE_TTL,
    ChainLink,
    ChainTooLong,
    StoredChain,
    plausible,
)
from lanes.stores.chain_location import ChainLocation
from lanes.stores.packing import pack_response, unpack_body, unpack_chain
from lanes.stores.redis_scripts import APPEND, DROP, ENTER, FORGET, OPEN
from steering.redis.guard import DEADLINE, RedisGuard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.stores.base import StoredResponse
    from lanes.stores.chain_location import BranchPosition
    from steering.redis.guard import RedisClient
    from steering.redis.scripts import LuaScript

#: Seconds for which a save that is late cannot bring a deleted id back.
_GONE_TTL: Final = 3600
#: Locations cached, so that each turn of a chain need not look up its parent.
_LOCATIONS: Final = 4096


class RedisResponseStore:
    """A ResponseStore on an engine.

    Args:
        client: A client that returns bytes (`decode_responses` off); its maker closes it.
        prefix: What all keys begin with.
        store_ttl: Seconds a response is kept.
        timeout: Seconds after which a call fails.
    """

    def __init__(
        self,
        client: RedisClient,
        *,
        prefix: str = "multilane",
        store_ttl: int = STORE_TTL,
        timeout: float = DEADLINE,
    ) -> None:
        self._client: Any = client
        self._guard = RedisGuard(client, deadline=timeout)
        self._prefix = prefix
        self._store_ttl = store_ttl
        # (key id, response id) -> location, the least recently used first. It says where items are
        # and not whether they still are: APPEND finds that out.
        self._locations: OrderedDict[tuple[str, str], ChainLocation] = OrderedDict()

    async def save(self, response: StoredResponse) -> None:
        """Save a response (see `ResponseStore.save`)."""
        items = response.input_items, response.output_items
        packed, body = await pack_response(items, response.body)
        await self._guard.run(lambda: self._save(response, packed, body))

    async def load(self, key_id: str, response_id: str, max_items: int) -> StoredChain | None:
        """Return a response and all it builds on (see `ResponseStore.load`).

        Args:
            key_id: The API key that asks.
            response_id: The last response of the chain.
            max_items: Items that the chain may hold.
        """
        ids, packed = await self._guard.run(lambda: self._read(key_id, response_id, max_items))
        if not ids:
            return None
        items = await unpack_chain(packed)
        return StoredChain(tuple(ChainLink(id, *own) for id, own in zip(ids, items, strict=True)))

    async def get(self, key_id: str, response_id: str) -> bytes | None:
        """Return a response object (see `ResponseStore.get`)."""
        if not plausible(response_id):
            return None
        body = await self._guard.run(
            lambda: self._client.hget(self._response_key(key_id, response_id), "body")
        )
        return None if body is None else await unpack_body(body)

    async def delete(self, key_id: str, response_id: str) -> bool:
        """Forget a response (see `ResponseStore.delete`)."""
        if not plausible(response_id):
            return False
        self._locations.pop((key_id, response_id), None)
        # The guard may ask twice; the token marks both as the same request.
        token = secrets.token_hex(8)
        return await self._guard.run(lambda: self._delete(key_id, response_id, token))

    async def aclose(self) -> None:
        """Do nothing: whoever made the client closes it."""

    async def _save(self, response: StoredResponse, packed: bytes, body: bytes) -> None:
        location = await self._put(response, packed)
        at = b"" if location is None else location.pack()
        key = self._response_key(response.key_id, response.id)
        entered = await self._run(ENTER, key, at, body, self._store_ttl)
        if location is not None and entered == at:
            self._remember((response.key_id, response.id), location)

    async def _read(
        self, key_id: str, response_id: str, max_items: int
    ) -> tuple[list[str], list[bytes]]:
        """Return the ids of a chain and their packed items, oldest first; none if it is gone."""
        location = await self._look_up(key_id, response_id)
        if location is None:
            return [], []
        if location.length > max_items:
            raise ChainTooLong(response_id, location.length, max_items)
        pipeline = self._client.pipeline(transaction=False)
        for branch, position in location.path:
            pipeline.lrange(self._branch_key(key_id, branch), 0, 2 * position + 1)
        parts: list[list[bytes]] = await pipeline.execute()
        if not location.matches(parts, response_id):
            return [], []  # deleted or expired since the look-up
        ids = [name[1:].decode() for part in parts for name in part[::2]]
        return ids, [data for part in parts for data in part[1::2]]

    async def _delete(self, key_id: str, response_id: str, token: str) -> bool:
        key = self._response_key(key_id, response_id)
        at = await self._run(FORGET, key, token, _GONE_TTL)
        if at:  # else it has no items
            location = ChainLocation.unpack(at)
            branch = self._branch_key(key_id, location.branch)
            await self._run(DROP, branch, response_id, location.position)
        return at is not None

    async def _put(self, response: StoredResponse, packed: bytes) -> ChainLocation | None:
        """Write the items and return where they are; None if the parent is not there."""
        key_id, parent_id, ttl = response.key_id, response.parent_id, self._store_ttl
        own = self._branch_key(key_id, response.id)
        if parent_id is None:
            await self._run(OPEN, own, response.id, packed, ttl)
            return ChainLocation(response.length, (), response.id, 0)
        parent = self._locations.get((key_id, parent_id)) or await self._look_up(key_id, parent_id)
        if parent is None:
            return None
        branch = self._branch_key(key_id, parent.branch)
        after = (parent_id, parent.position, response.id)
        outcome = await self._run(APPEND, branch, *after, packed, ttl)
        if outcome == b"gone":
            return None
        length = parent.length + response.length
        location = ChainLocation(length, parent.forks, parent.branch, parent.position + 1)
        if outcome == b"fork":
            await self._run(OPEN, own, response.id, packed, ttl)
            location = ChainLocation(length, parent.path, response.id, 0)
        await self._renew_forks(key_id, parent.forks)
        return location

    async def _renew_forks(self, key_id: str, forks: Sequence[BranchPosition]) -> None:
        """Keep the branches that a chain builds on for as long as its own."""
        if not forks:
            return
        pipeline = self._client.pipeline(transaction=False)
        for branch, _ in forks:
            pipeline.expire(self._branch_key(key_id, branch), self._store_ttl)
        await pipeline.execute()

    async def _look_up(self, key_id: str, response_id: str) -> ChainLocation | None:
        if not plausible(response_id):
            return None
        key = self._response_key(key_id, response_id)
        at, gone = await self._client.hmget(key, "at", "gone")
        return ChainLocation.unpack(at) if at and gone is None else None

    async def _run(self, script: LuaScript, key: str, *args: str | bytes | int) -> Any:
        return await script.run(self._client, [key], args)

    def _remember(self, key: tuple[str, str], location: ChainLocation) -> None:
        self._locations[key] = location
        self._locations.move_to_end(key)
        if len(self._locations) > _LOCATIONS:
            self._locations.popitem(last=False)

    def _branch_key(self, key_id: str, response_id: str) -> str:
        return f"{self._prefix}:branch:{key_id}:{response_id}"

    def _response_key(self, key_id: str, response_id: str) -> str:
        return f"{self._prefix}:response:{key_id}:{response_id}"
