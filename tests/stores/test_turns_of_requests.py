"""Whatever a request asks of the store takes a turn of its own API key's (D29)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.client.auth import OPEN
from steering.redis.guard import OWN_CALLS, RedisGuard
from tests.support.client import connect
from tests.support.gateway_stand import Stand
from tests.support.wire_stand import standing
from tests.wire.test_memory_given_back import SCENES as OVER_SOCKETS
from tests.wire.test_memory_of_routes import SCENES as OVER_HTTP

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import pytest

    from tests.support.redis_engine import Engine


#: What a process asks for itself. The clerk writes verdicts by turns of the keys, few at a time.
OWN = {
    *("Lease._set", "Lease.release", "StoreWatch._infos", "StoreWatch._probe"),
    *("RedisBackgroundStore.asked_to_cancel", "RedisSealingKeyStore.get_or_put"),
    "RedisSteerStore.settle.<locals>.ask",
}


async def test_no_request_takes_turns_of_the_process(
    valkey: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: dict[str, set[str]] = {}
    run = RedisGuard.run

    async def noting(guard: RedisGuard, ask: Callable[[], Awaitable[Any]], key_id: str = "") -> Any:
        function = getattr(ask, "func", ask)
        turns.setdefault(key_id, set()).add(function.__qualname__)
        return await run(guard, ask, key_id)

    monkeypatch.setattr(RedisGuard, "run", noting)
    async with standing(retries=0, redis_url=f"unix://{valkey.path}") as stand:
        for over_http in OVER_HTTP:
            await over_http(stand)
            stand.fake.exchanges.clear()
        for scene in OVER_SOCKETS:
            async with connect(stand.url) as client:
                await scene(Stand(stand.fake, client, stand.url, []))
            stand.fake.exchanges.clear()
    assert turns.keys() == {OWN_CALLS, OPEN}
    assert {name.removesuffix(".<locals>.<lambda>") for name in turns[OWN_CALLS]} <= OWN
    assert len(turns[OPEN]) > 15
