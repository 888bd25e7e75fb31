"""What a connection held dies with it where its backends are asked over WebSockets (D25)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gateway.config.settings import Settings
from tests.support.alive import twice
from tests.support.gateway import serving
from tests.support.wire_stand import sockets, standing
from tests.wire.test_memory_given_back import (
    broken_off,
    finished,
    followed,
    pending,
    played,
    refused_upstream,
    streaming,
    waiting_for_a_boundary,
    waiting_for_the_head,
)

if TYPE_CHECKING:
    from tests.wire.test_memory_given_back import Scene


@pytest.mark.parametrize("aborts", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("steering", ["gateway", "native"])
@pytest.mark.parametrize(
    "scene",
    [
        finished,
        streaming,
        waiting_for_the_head,
        followed,
        waiting_for_a_boundary,
        pending,
        refused_upstream,
        broken_off,
    ],
)
async def test_nothing_outlives_it_on_a_websocket_upstream(
    scene: Scene, steering: str, *, aborts: bool
) -> None:
    way: dict[str, Any] = {
        "upstream_transport": "websocket",
        "steering": steering,
        "dialect": "openai",
        "retries": 0,
    }
    async with (
        standing(retries=0) as inner,
        serving(Settings(**{"upstream": inner.url, **way})) as (_, url),
    ):

        async def play() -> None:
            await played(url, inner.fake, scene, aborts=aborts)
            for socket in sockets(inner):  # one that carries nothing is kept for the next response
                socket.end(1000)

        await twice(play)
