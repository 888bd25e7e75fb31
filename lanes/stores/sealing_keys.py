"""The key that seals compaction items, if the operator sets none: made once, kept for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from steering.errors import SenselessAnswer
from steering.redis.guard import RedisGuard
from steering.redis.scripts import LuaScript

if TYPE_CHECKING:
    from steering.redis.guard import RedisClient

_KEY_BYTES: Final = 32

#: Return the key that is there, or put this one there. KEYS: key. ARGV: key.
_GET_OR_PUT: Final = LuaScript("""
local kept = redis.call('GET', KEYS[1])
if kept then return kept end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]
""")


class SealingKeyStore(Protocol):
    """Keeps one key for all gateways of a store. Its methods raise StoreUnavailable."""

    async def get(self) -> bytes | None:
        """Return the key, if there is one."""

    async def get_or_put(self, key: bytes) -> bytes:
        """Return the key that is kept: this one, if there was none."""


class MemorySealingKeyStore:
    """A SealingKeyStore of one process."""

    def __init__(self) -> None:
        self._key: bytes | None = None

    async def get(self) -> bytes | None:
        """Return the key, if there is one."""
        return self._key

    async def get_or_put(self, key: bytes) -> bytes:
        """Return the key that is kept (see `SealingKeyStore.get_or_put`)."""
        self._key = self._key or key
        return self._key


class RedisSealingKeyStore:
    """A SealingKeyStore on an engine, under `<prefix>:sealing-key`, without an end.

    Args:
        client: A client that returns bytes (`decode_responses` off); its maker closes it.
        prefix: What all keys begin with.
        guard: Makes the calls; one of its own if there is none.
    """

    def __init__(
        self, client: RedisClient, *, prefix: str = "multilane", guard: RedisGuard | None = None
    ) -> None:
        self._client = client
        self._guard = guard or RedisGuard(client)
        self._name = f"{prefix}:sealing-key"

    async def get(self) -> bytes | None:
        """Return the key, if there is one."""
        kept = await self._guard.run(lambda: self._client.get(self._name))
        return None if kept is None else _key(kept)

    async def get_or_put(self, key: bytes) -> bytes:
        """Return the key that is kept (see `SealingKeyStore.get_or_put`)."""
        return _key(
            await self._guard.run(lambda: _GET_OR_PUT.run(self._client, [self._name], [key]))
        )


def _key(answer: object) -> bytes:
    if not isinstance(answer, bytes) or len(answer) != _KEY_BYTES:
        raise SenselessAnswer
    return answer
