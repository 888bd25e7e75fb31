"""The store of claims in Redis or Valkey, for all processes.

    <prefix>:claim:<key_id>:<name>  STRING: the owner, the digest, and the answer, packed

Every script has one key, and can run again after a lost reply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from anyio.to_thread import run_sync

from lanes.stores.base import UnreadableResponse
from lanes.stores.claims import ANSWER_TTL, CLAIM_TTL, Claim
from lanes.stores.packing import THREAD_OVER, pack, unpack_body
from steering.redis.guard import RedisGuard
from steering.redis.scripts import LuaScript

if TYPE_CHECKING:
    from steering.redis.guard import RedisClient

_OWNER: Final = 16
_HEAD: Final = _OWNER + 64

#: Return what is there, or put it there. KEYS: claim. ARGV: value, TTL in seconds.
_CLAIM: Final = LuaScript("""
local kept = redis.call('GET', KEYS[1])
if kept then return kept end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return ARGV[1]
""")

#: Keep a claim longer, unless it is another's or has its answer. KEYS: claim. ARGV: value, TTL.
_RENEW: Final = LuaScript("""
local size = redis.call('STRLEN', KEYS[1])
if size == 0 or size == #ARGV[1] and redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
end
return 'ok'
""")

#: Keep an answer, unless the claim is another owner's. KEYS: claim. ARGV: owner, value, TTL.
_SETTLE: Final = LuaScript("""
local owner = redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1)
if owner == '' or owner == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
end
return 'ok'
""")

#: Give a claim up, or forget its answer, if it is the owner's. KEYS: claim. ARGV: owner.
_RELEASE: Final = LuaScript("""
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1) == ARGV[1] then
  redis.call('DEL', KEYS[1])
end
return 'ok'
""")


class RedisClaimStore:
    """A ClaimStore on an engine.

    Args:
        client: A client that returns bytes (`decode_responses` off); its maker closes it.
        prefix: What all keys begin with.
        guard: Makes the calls; one of its own if there is none.
    """

    def __init__(
        self, client: RedisClient, *, prefix: str = "multilane", guard: RedisGuard | None = None
    ) -> None:
        self._client: Any = client
        self._guard = guard or RedisGuard(client)
        self._prefix = prefix

    async def claim(self, key_id: str, name: str, claim: Claim) -> Claim:
        """Return the claim on this name (see `ClaimStore.claim`)."""
        return await _read(await self._run(_CLAIM, key_id, name, _head(claim), CLAIM_TTL))

    async def renew(self, key_id: str, name: str, claim: Claim) -> None:
        """Keep a claim longer (see `ClaimStore.renew`)."""
        await self._run(_RENEW, key_id, name, _head(claim), CLAIM_TTL)

    async def finish(self, key_id: str, name: str, claim: Claim) -> None:
        """Keep an answer (see `ClaimStore.finish`)."""
        answer = claim.answer or b""
        packed = await run_sync(pack, answer) if len(answer) > THREAD_OVER else pack(answer)
        await self._run(_SETTLE, key_id, name, claim.owner, _head(claim) + packed, ANSWER_TTL)

    async def release(self, key_id: str, name: str, owner: str) -> None:
        """Give a claim up (see `ClaimStore.release`)."""
        await self._run(_RELEASE, key_id, name, owner)

    async def _run(
        self, script: LuaScript, key_id: str, name: str, *args: str | bytes | int
    ) -> Any:
        key = f"{self._prefix}:claim:{key_id}:{name}"
        return await self._guard.run(lambda: script.run(self._client, [key], args), key_id)


def _head(claim: Claim) -> bytes:
    return (claim.owner + claim.digest).encode()


async def _read(value: object) -> Claim:
    if not isinstance(value, bytes) or len(value) < _HEAD or not value[:_HEAD].isalnum():
        raise UnreadableResponse
    owner, digest = value[:_OWNER].decode(), value[_OWNER:_HEAD].decode()
    packed = value[_HEAD:]
    return Claim(owner, digest, await unpack_body(packed) if packed else None)
