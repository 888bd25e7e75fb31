"""A Lua script of an engine, called the short way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hiredis import pack_command
from redis.exceptions import NoScriptError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steering.redis.guard import Client


class Script:
    """Calls a script by its digest, and teaches it to an engine that does not know it.

    Where there is a pool, one packed write and one read on a connection of it are half the time of
    the client's own call, whose retries and measurements a guard makes needless.
    """

    def __init__(self, client: Client, text: str) -> None:
        self._script = client.register_script(text)
        # A cluster has none: there the client finds the node.
        self._pool: Any = getattr(client, "connection_pool", None)

    async def __call__(self, keys: Sequence[str], args: Sequence[str | bytes]) -> Any:
        """What the script returns."""
        if self._pool is None:
            return await self._script(keys, args)
        try:
            return await self._call(("EVALSHA", self._script.sha, len(keys), *keys, *args))
        except NoScriptError:
            return await self._script(keys, args)

    async def _call(self, words: Any) -> Any:
        connection = await self._pool.get_connection()
        try:
            await connection.send_packed_command([pack_command(words)])
            return await connection.read_response()
        finally:
            await self._pool.release(connection)
