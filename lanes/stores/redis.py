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
from lanes.stores.branch_lives import BranchLives
from lanes.stores.chain_location import ChainLocation
from lanes.stores.packing import pack_response, unpack_body, unpack_chain
from lanes.stores.redis_scripts import APPEND, DONE, DROP, ENTER, FORGET, FORK, GONE, OPEN
from steering.redis.answers import (
    integers,
    many,
    names,
    optional_bytes,
    optional_strings,
    strings,
    word,
)
from steering.redis.guard import RedisGuard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.stores.base import StoredResponse
    from steering.redis.guard import RedisClient
    from steering.redis.scripts import LuaScript

#: Seconds for which a save that is late cannot bring a deleted id back.
_GONE_TTL: Final = 3600
#: Locations cached, so that each turn of a chain need not look up its parent.
_LOCATIONS: Final = 4096
#: Forks of a location that is cached; those of longer ways are looked up each time.
_CACHED_FORKS: Final = 32
#: Forks on the way from a root; the next one copies the chain into a branch of its own, since the
#: way is stored with every response.
MAX_FORKS: Final = 512


class RedisResponseStore:
    """A ResponseStore on an engine.

    Args:
        client: A client that returns bytes (`decode_responses` off); its maker closes it.
        prefix: What all keys begin with.
        store_ttl: Seconds a response is kept.
        guard: Makes the calls; one of its own if there is none.
    """

    def __init__(
        self,
        client: RedisClient,
        *,
        prefix: str = "multilane",
        store_ttl: int = STORE_TTL,
        guard: RedisGuard | None = None,
    ) -> None:
        self._client: Any = client
        self._guard = guard or RedisGuard(client)
        self._prefix = prefix
        self._store_ttl = store_ttl
        self._lives = BranchLives(client, store_ttl)
        # (key id, response id) -> location, the least recently used first. It says where items are
        # and not whether they still are: APPEND finds that out.
        self._locations: OrderedDict[tuple[str, str], ChainLocation] = OrderedDict()

    async def save(self, response: StoredResponse) -> None:
        """Save a response (see `ResponseStore.save`)."""
        items = response.input_items, response.output_items
        packed, body = await pack_response(items, response.body)
        await self._guard.run(lambda: self._save(response, packed, body), response.key_id)

    async def load(self, key_id: str, response_id: str, max_items: int) -> StoredChain | None:
        """Return a response and all it builds on (see `ResponseStore.load`).

        Args:
            key_id: The API key that asks.
            response_id: The last response of the chain.
            max_items: Items that the chain may hold.
        """
        ids, packed = await self._guard.run(
            lambda: self._read(key_id, response_id, max_items), key_id
        )
        if not ids:
            return None
        items = await unpack_chain(packed)
        return StoredChain(tuple(ChainLink(id, *own) for id, own in zip(ids, items, strict=True)))

    async def get(self, key_id: str, response_id: str) -> bytes | None:
        """Return a response object (see `ResponseStore.get`)."""
        if not plausible(response_id):
            return None
        key = self._response_key(key_id, response_id)

        async def ask() -> bytes | None:
            return optional_bytes(await self._client.hget(key, "body"))

        body = await self._guard.run(ask, key_id)
        return None if body is None else await unpack_body(body)

    async def delete(self, key_id: str, response_id: str) -> bool:
        """Forget a response (see `ResponseStore.delete`)."""
        if not plausible(response_id):
            return False
        self._locations.pop((key_id, response_id), None)
        # The guard may ask twice; the token marks both as the same request.
        token = secrets.token_hex(8)
        return await self._guard.run(lambda: self._delete(key_id, response_id, token), key_id)

    async def aclose(self) -> None:
        """Do nothing: whoever made the client closes it."""

    async def _save(self, response: StoredResponse, packed: bytes, body: bytes) -> None:
        location = await self._put(response, packed)
        at = b"" if location is None else location.pack()
        key = self._response_key(response.key_id, response.id)
        entered = optional_bytes(await self._run(ENTER, key, at, body, self._store_ttl))
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
        parts = await self._parts(key_id, location)
        if not location.matches(parts, response_id):
            return [], []  # deleted or expired since the look-up
        ids = names([name[1:] for part in parts for name in part[::2]])
        return ids, [data for part in parts for data in part[1::2]]

    async def _parts(self, key_id: str, location: ChainLocation) -> list[list[bytes]]:
        """Return what each branch of a chain holds of it, the root's first."""
        pipeline = self._client.pipeline(transaction=False)
        for branch, position in location.path:
            pipeline.lrange(self._branch_key(key_id, branch), 0, 2 * position + 1)
        return [strings(part) for part in many(await pipeline.execute(), len(location.path))]

    async def _delete(self, key_id: str, response_id: str, token: str) -> bool:
        key = self._response_key(key_id, response_id)
        at = optional_bytes(await self._run(FORGET, key, token, _GONE_TTL))
        if at:  # else it has no items
            location = ChainLocation.unpack(at)
            branch = self._branch_key(key_id, location.branch)
            word(await self._run(DROP, branch, response_id, location.position), DONE)
        return at is not None

    async def _put(self, response: StoredResponse, packed: bytes) -> ChainLocation | None:
        """Write the items and return where they are; None if the parent is not there."""
        key_id, parent_id = response.key_id, response.parent_id
        if parent_id is None:
            await self._open(response, self._lives.full, packed)
            return ChainLocation(response.length, (), response.id, 0)
        parent = self._locations.get((key_id, parent_id)) or await self._look_up(key_id, parent_id)
        if parent is None:
            return None
        after = (parent_id, parent.position, response.id)
        branch = self._branch_key(key_id, parent.branch)
        answer = many(await self._run(APPEND, branch, *after, packed), 2)
        outcome, (left,) = word(answer[0], DONE, FORK, GONE), integers(answer[1:], 1)
        if outcome == GONE:
            return None
        branches = [self._branch_key(key_id, name) for name, _ in parent.path]
        left = await self._lives.keep(branches, left)
        length = parent.length + response.length
        if outcome == DONE:
            return ChainLocation(length, parent.forks, parent.branch, parent.position + 1)
        if len(parent.path) > MAX_FORKS:
            return await self._copy(response, packed, parent)
        await self._open(response, left, packed)
        return ChainLocation(length, parent.path, response.id, 0)

    async def _open(
        self, response: StoredResponse, life: int, packed: bytes, before: Sequence[bytes] = ()
    ) -> None:
        """Open a branch.

        Args:
            response: The response that opens it.
            life: Milliseconds for which it is kept.
            packed: The response's items.
            before: What comes before it in the branch: marks with ids, and items.
        """
        branch = self._branch_key(response.key_id, response.id)
        word(await self._run(OPEN, branch, life, *before, f".{response.id}", packed), DONE)

    async def _copy(
        self, response: StoredResponse, packed: bytes, parent: ChainLocation
    ) -> ChainLocation | None:
        """Open a branch that holds the whole chain, so that the way to a root stays short.

        What is copied bears the mark of a deleted response: it goes once nothing builds on it.
        """
        parts = await self._parts(response.key_id, parent)
        if response.parent_id is None or not parent.matches(parts, response.parent_id):
            return None
        chain = [element for part in parts for element in part]
        chain[::2] = [b"-" + name[1:] for name in chain[::2]]
        await self._open(response, self._lives.full, packed, chain)
        return ChainLocation(parent.length + response.length, (), response.id, len(chain) // 2)

    async def _look_up(self, key_id: str, response_id: str) -> ChainLocation | None:
        if not plausible(response_id):
            return None
        key = self._response_key(key_id, response_id)
        at, gone = optional_strings(await self._client.hmget(key, "at", "gone"), 2)
        return ChainLocation.unpack(at) if at and gone is None else None

    async def _run(self, script: LuaScript, key: str, *args: str | bytes | int) -> Any:
        return await script.run(self._client, [key], args)

    def _remember(self, key: tuple[str, str], location: ChainLocation) -> None:
        if len(location.forks) > _CACHED_FORKS:
            return
        self._locations[key] = location
        self._locations.move_to_end(key)
        if len(self._locations) > _LOCATIONS:
            self._locations.popitem(last=False)

    def _branch_key(self, key_id: str, response_id: str) -> str:
        return f"{self._prefix}:branch:{key_id}:{response_id}"

    def _response_key(self, key_id: str, response_id: str) -> str:
        return f"{self._prefix}:response:{key_id}:{response_id}"
