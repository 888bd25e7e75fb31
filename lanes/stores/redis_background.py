"""The store of responses in the background in Redis or Valkey, for all processes.

    <prefix>:background:<key_id>:<id>  HASH: `owner`, `over` (0 or 1), `body` and `input` (packed)
    <prefix>:events:<key_id>:<id>      LIST: the events, each in the place of its number
    <prefix>:cancel:<owner>            SET: which of its responses a process is to cancel

Every script has one key, and can run again after a lost reply. All keys expire.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from anyio.to_thread import run_sync

from lanes.stores.background import (
    EVENTS_AT_ONCE,
    EVENTS_TTL,
    RECORD_TTL,
    BackgroundRecord,
    KeptEvents,
    ResponseName,
    failed_with_its_process,
    kept_for,
)
from lanes.stores.base import UnreadableResponse, plausible
from lanes.stores.packing import THREAD_OVER, pack, pack_input, unpack_body, unpack_input
from steering.redis.answers import integers, many, names, optional_strings, strings, word
from steering.redis.guard import RedisGuard
from steering.redis.scripts import LuaScript

if TYPE_CHECKING:
    from lanes.stores.background import Progress, ResponseInput
    from steering.redis.guard import RedisClient
    from steering.redis.lease import Lease

#: Seconds for which a process may be asked to cancel a response.
_ASKED_TTL: Final = 600
_YES: Final = b"1"

#: Enter a response unless it is there. KEYS: record. ARGV: owner, body, input, TTL in seconds.
_OPEN: Final = LuaScript("""
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'over', '0', 'body', ARGV[2], 'input', ARGV[3])
  redis.call('EXPIRE', KEYS[1], ARGV[4])
end
return '1'
""")

#: Write how a response is if its owner is this one and it is not over, or is over in just this
#: way. KEYS: record. ARGV: owner, over, body, TTL in seconds. Returns whether it is so.
_WRITE: Final = LuaScript("""
local owner, over, body = unpack(redis.call('HMGET', KEYS[1], 'owner', 'over', 'body'))
if owner ~= ARGV[1] then return '0' end
if over ~= '0' then return over == ARGV[2] and body == ARGV[3] and '1' or '0' end
redis.call('HSET', KEYS[1], 'over', ARGV[2], 'body', ARGV[3])
redis.call('EXPIRE', KEYS[1], ARGV[4])
return '1'
""")

#: Append events if the last ones are those before them. KEYS: events. ARGV: number of the first,
#: TTL in seconds, events.
_APPEND: Final = LuaScript("""
if redis.call('LLEN', KEYS[1]) == tonumber(ARGV[1]) then
  for i = 3, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end
end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return '1'
""")


class RedisBackgroundStore:
    """A BackgroundStore on an engine.

    Args:
        client: A client that returns bytes (`decode_responses` off); its maker closes it.
        lease: The lease of this process, and its judgement on the others.
        prefix: What all keys begin with.
        guard: Makes the calls; one of its own if there is none.
    """

    def __init__(
        self,
        client: RedisClient,
        lease: Lease,
        *,
        prefix: str = "multilane",
        guard: RedisGuard | None = None,
    ) -> None:
        self._client: Any = client
        self._lease = lease
        self._guard = guard or RedisGuard(client)
        self._prefix = prefix

    async def open(
        self, name: ResponseName, body: bytes, made_from: ResponseInput | None = None
    ) -> None:
        """Enter a response (see `BackgroundStore.open`)."""
        if not self._lease.held:  # else a reader could take this owner for gone
            await self._lease.renew()
        key, owner = self._key("background", name), self._lease.owner
        given = b"" if made_from is None else await pack_input(made_from)
        await self._run(_OPEN, name, key, owner, await _packed(body), given, RECORD_TTL)

    async def advance(self, name: ResponseName, progress: Progress) -> bool:
        """Keep its next events (see `BackgroundStore.advance`)."""
        if not await self._write(name, self._lease.owner, progress.body):
            return False
        events, first = progress.events, progress.first
        for start in range(0, len(events), EVENTS_AT_ONCE):
            some = events[start : start + EVENTS_AT_ONCE]
            key = self._key("events", name)
            await self._run(_APPEND, name, key, first + start, EVENTS_TTL, *some)
        return True

    async def finish(self, name: ResponseName, body: bytes) -> bool:
        """Keep its final object (see `BackgroundStore.finish`)."""
        owner = self._lease.owner
        mine = await self._write(name, owner, body, kept_for(body))
        key = self._cancel_key(owner)
        await self._guard.run(lambda: self._client.srem(key, ":".join(name)), name.key_id)
        return mine

    async def get(self, name: ResponseName) -> BackgroundRecord | None:
        """Return how a response is (see `BackgroundStore.get`)."""
        found = await self._read(name)
        if found is None or found[1].over:
            return found and found[1]
        owner, record = found
        if await self._lease.gone({owner}):
            failed = failed_with_its_process(record.body)
            await self._write(name, owner, failed, RECORD_TTL)
            found = await self._read(name)  # it may have ended just before
        return found and found[1]

    async def made_from(self, name: ResponseName) -> ResponseInput | None:
        """Return what a response was made from (see `BackgroundStore.made_from`)."""
        if not plausible(name.id):
            return None
        key = self._key("background", name)

        async def ask() -> bytes | None:
            return optional_strings([await self._client.hget(key, "input")], 1)[0]

        given = await self._guard.run(ask, name.key_id)
        return await unpack_input(given) if given else None

    async def events(self, name: ResponseName, first: int) -> KeptEvents:
        """Return events of a response (see `BackgroundStore.events`)."""
        if not plausible(name.id):
            return KeptEvents([], 0)
        key = self._key("events", name)

        async def ask() -> KeptEvents:
            pipeline = self._client.pipeline(transaction=False)
            pipeline.lrange(key, first, first + EVENTS_AT_ONCE - 1)
            pipeline.llen(key)
            events, count = many(await pipeline.execute(), 2)
            return KeptEvents(strings(events), integers([count], 1)[0])

        return await self._guard.run(ask, name.key_id)

    async def ask_to_cancel(self, name: ResponseName) -> None:
        """Ask to cancel a response (see `BackgroundStore.ask_to_cancel`)."""
        found = await self._read(name)
        if found is None or found[1].over:
            return
        key = self._cancel_key(found[0])

        async def ask() -> None:
            pipeline = self._client.pipeline(transaction=False)
            pipeline.sadd(key, ":".join(name))
            pipeline.expire(key, _ASKED_TTL)
            await pipeline.execute()

        await self._guard.run(ask, name.key_id)

    async def asked_to_cancel(self) -> list[ResponseName]:
        """Return which responses are to be cancelled (see `BackgroundStore.asked_to_cancel`)."""
        key = self._cancel_key(self._lease.owner)
        found = await self._guard.run(lambda: self._client.smembers(key))
        pairs = [text.rpartition(":") for text in names(list(found))]
        return [ResponseName(key_id, response_id) for key_id, _, response_id in pairs]

    async def delete(self, name: ResponseName) -> bool:
        """Forget a response (see `BackgroundStore.delete`)."""
        if not plausible(name.id):
            return False
        found = await self._read(name) is not None
        for key in (self._key("background", name), self._key("events", name)):
            await self._guard.run(partial(self._client.delete, key), name.key_id)
        return found

    async def _read(self, name: ResponseName) -> tuple[str, BackgroundRecord] | None:
        """Return the owner of a response, and how it is."""
        if not plausible(name.id):
            return None
        key = self._key("background", name)

        async def ask() -> list[bytes | None]:
            return optional_strings(await self._client.hmget(key, "owner", "over", "body"), 3)

        owner, over, body = await self._guard.run(ask, name.key_id)
        if owner is None:
            return None
        if over is None or body is None or not owner.isalnum():
            raise UnreadableResponse
        return owner.decode(), BackgroundRecord(await unpack_body(body), over == _YES)

    async def _write(
        self, name: ResponseName, owner: str, body: bytes, ttl: int | None = None
    ) -> bool:
        """Write how a response is; it is over if there is a `ttl`."""
        key, packed = self._key("background", name), await _packed(body)
        over = ttl is not None
        return await self._run(_WRITE, name, key, owner, int(over), packed, ttl or RECORD_TTL)

    async def _run(
        self, script: LuaScript, name: ResponseName, key: str, *args: str | bytes | int
    ) -> bool:
        answer = await self._guard.run(lambda: script.run(self._client, [key], args), name.key_id)
        return word(answer, b"0", _YES) == _YES

    def _key(self, kind: str, name: ResponseName) -> str:
        return f"{self._prefix}:{kind}:{name.key_id}:{name.id}"

    def _cancel_key(self, owner: str) -> str:
        return f"{self._prefix}:cancel:{owner}"


async def _packed(body: bytes) -> bytes:
    return await run_sync(pack, body) if len(body) > THREAD_OVER else pack(body)
