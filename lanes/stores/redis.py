"""Stored responses in Redis or Valkey, for all processes and beyond restarts.

    <prefix>:branch:<key_id>:<id>    LIST: the items of responses that follow each other
    <prefix>:response:<key_id>:<id>  HASH: `at` (its place, packed), `body` (its object, packed)

A branch has the id of the response that opened it. A response goes to the end of its parent's
branch, or, if another came first, opens a branch of its own and notes the way back to the root:
[(branch, position)…]. So a turn writes its own items only, and a chain is read by one look-up and
one pipeline. Every script has one key, hence no hash tags: a cluster spreads branches evenly. The
hash is written last, so what is known is whole. All keys expire.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import NoScriptError

from lanes.stores.base import (
    STORE_TTL,
    ChainLink,
    ChainTooLong,
    StoredChain,
    plausible,
)
from lanes.stores.chain_places import ChainPlace
from lanes.stores.packing import pack_response, unpack_body, unpack_chain
from lanes.stores.scripts import APPEND, DROP, ENTER, FORGET, OPEN, Script
from steering.redis.guard import DEADLINE, RedisGuard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.stores.base import StoredResponse
    from lanes.stores.chain_places import BranchStep
    from steering.redis.guard import Client

#: How long, in seconds, a deleted id cannot come back by a save that was on its way.
_GONE_TTL: Final = 3600
#: Places remembered, so that a chain that goes on is not looked up each time.
_PLACES: Final = 4096


class RedisResponseStore:
    """A ResponseStore on a client that answers bytes (`decode_responses` off).

    `store_ttl` in seconds; no call takes longer than `timeout` seconds. The client is the caller's
    to close.
    """

    def __init__(
        self,
        client: Client,
        *,
        prefix: str = "multilane",
        store_ttl: int = STORE_TTL,
        timeout: float = DEADLINE,
    ) -> None:
        self._client: Any = client
        self._guard = RedisGuard(client, deadline=timeout)
        self._prefix = prefix
        self._store_ttl = store_ttl
        # Least recently used first. Never asked whether a response is there.
        self._places: OrderedDict[tuple[str, str], ChainPlace] = OrderedDict()

    async def save(self, response: StoredResponse) -> None:
        """See ResponseStore."""
        items = response.input_items, response.output_items
        packed, body = await pack_response(items, response.body)
        await self._guard.run(lambda: self._save(response, packed, body))

    async def load(self, key_id: str, response_id: str, max_items: int) -> StoredChain | None:
        """See ResponseStore."""
        ids, packed = await self._guard.run(lambda: self._read(key_id, response_id, max_items))
        if not ids:
            return None
        items = await unpack_chain(packed)
        return StoredChain(tuple(ChainLink(id, *own) for id, own in zip(ids, items, strict=True)))

    async def get(self, key_id: str, response_id: str) -> bytes | None:
        """See ResponseStore."""
        if not plausible(response_id):
            return None
        body = await self._guard.run(
            lambda: self._client.hget(self._response(key_id, response_id), "body")
        )
        return None if body is None else await unpack_body(body)

    async def delete(self, key_id: str, response_id: str) -> bool:
        """See ResponseStore."""
        if not plausible(response_id):
            return False
        self._places.pop((key_id, response_id), None)
        # The guard asks again if a reply is late; the token makes that the same request.
        token = secrets.token_hex(8)
        return await self._guard.run(lambda: self._delete(key_id, response_id, token))

    async def aclose(self) -> None:
        """Nothing: the client is the caller's."""

    async def _save(self, response: StoredResponse, packed: bytes, body: bytes) -> None:
        place = await self._put(response, packed)
        at = b"" if place is None else place.pack()
        key = self._response(response.key_id, response.id)
        entered = await self._run(ENTER, key, at, body, self._store_ttl)
        if place is not None and entered == at:
            self._remember((response.key_id, response.id), place)

    async def _read(
        self, key_id: str, response_id: str, max_items: int
    ) -> tuple[list[str], list[bytes]]:
        """The ids of a chain and their packed items, oldest first; nothing if it is not there."""
        place = await self._look_up(key_id, response_id)
        if place is None:
            return [], []
        if place.length > max_items:
            raise ChainTooLong(response_id, place.length, max_items)
        pipeline = self._client.pipeline(transaction=False)
        for branch, position in place.steps:
            pipeline.lrange(self._branch(key_id, branch), 0, 2 * position + 1)
        parts: list[list[bytes]] = await pipeline.execute()
        if not place.whole(parts, response_id):
            return [], []  # deleted or expired since the look-up
        ids = [name[1:].decode() for part in parts for name in part[::2]]
        return ids, [data for part in parts for data in part[1::2]]

    async def _delete(self, key_id: str, response_id: str, token: str) -> bool:
        key = self._response(key_id, response_id)
        at = await self._run(FORGET, key, token, _GONE_TTL)
        if at:  # else it has no items
            place = ChainPlace.unpack(at)
            await self._run(DROP, self._branch(key_id, place.branch), response_id, place.position)
        return at is not None

    async def _put(self, response: StoredResponse, packed: bytes) -> ChainPlace | None:
        """Write the items; None if the parent is not there."""
        key_id, parent_id, ttl = response.key_id, response.parent_id, self._store_ttl
        own = self._branch(key_id, response.id)
        if parent_id is None:
            await self._run(OPEN, own, response.id, packed, ttl)
            return ChainPlace(response.length, (), response.id, 0)
        parent = self._places.get((key_id, parent_id)) or await self._look_up(key_id, parent_id)
        if parent is None:
            return None
        branch = self._branch(key_id, parent.branch)
        after = (parent_id, parent.position, response.id)
        outcome = await self._run(APPEND, branch, *after, packed, ttl)
        if outcome == b"gone":
            return None
        length = parent.length + response.length
        place = ChainPlace(length, parent.forks, parent.branch, parent.position + 1)
        if outcome == b"fork":
            await self._run(OPEN, own, response.id, packed, ttl)
            place = ChainPlace(length, parent.steps, response.id, 0)
        await self._refresh(key_id, parent.forks)
        return place

    async def _refresh(self, key_id: str, forks: Sequence[BranchStep]) -> None:
        """Keep what the branch builds on for as long as the branch."""
        if not forks:
            return
        pipeline = self._client.pipeline(transaction=False)
        for branch, _ in forks:
            pipeline.expire(self._branch(key_id, branch), self._store_ttl)
        await pipeline.execute()

    async def _look_up(self, key_id: str, response_id: str) -> ChainPlace | None:
        if not plausible(response_id):
            return None
        key = self._response(key_id, response_id)
        at, gone = await self._client.hmget(key, "at", "gone")
        return ChainPlace.unpack(at) if at and gone is None else None

    async def _run(self, script: Script, key: str, *args: str | bytes | int) -> Any:
        try:
            return await self._client.evalsha(script.sha, 1, key, *args)
        except NoScriptError:
            # New server, failover or SCRIPT FLUSH. It did not run, so it is safe to send it whole.
            return await self._client.eval(script.text, 1, key, *args)

    def _remember(self, key: tuple[str, str], place: ChainPlace) -> None:
        self._places[key] = place
        self._places.move_to_end(key)
        if len(self._places) > _PLACES:
            self._places.popitem(last=False)

    def _branch(self, key_id: str, response_id: str) -> str:
        return f"{self._prefix}:branch:{key_id}:{response_id}"

    def _response(self, key_id: str, response_id: str) -> str:
        return f"{self._prefix}:response:{key_id}:{response_id}"
