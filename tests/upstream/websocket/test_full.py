"""Sockets that take less than the protocol says, or take no more: another one does."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from lanes.errors import UpstreamFault
from tests.support.hang_guard import HANG
from tests.support.websocket_upstream import client, opened, post

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.support.websocket_upstream import SocketPeer, SocketUpstream

LIMITS = ["websocket_stream_limit_reached", "too_many_queued_responses"]


def taking(room: int, code: str) -> Callable[[SocketPeer], Coroutine[Any, Any, None]]:
    """Begin responses under so many names on each socket, and refuse the others."""

    async def play(peer: SocketPeer) -> None:
        names: list[str] = []
        async for text in peer.socket:
            lane = json.loads(text)["stream_id"]
            if lane not in names and len(names) == room:
                await peer.error(lane, code, 400)
            else:
                names.append(lane)
                await peer.created(lane)

    return play


@pytest.mark.parametrize("code", LIMITS)
async def test_a_limit_is_learned(server: SocketUpstream, code: str) -> None:
    server.play = taking(3, code)
    async with client(server, retries=1) as one:
        streams = await asyncio.gather(*(post(one) for _ in range(20)))
        assert sum(one.sockets.busy) == 20
        assert max(one.sockets.busy) == 3
        made = len(server.peers)
        for stream in streams:
            stream.close()
        await asyncio.gather(*(post(one) for _ in range(9)))
        assert len(server.peers) == made + 3


@pytest.mark.parametrize("code", LIMITS)
async def test_a_socket_that_takes_nothing(server: SocketUpstream, code: str) -> None:
    """What it says is not what the client may be told: its own lanes and queue are not meant."""
    server.play = taking(0, code)
    async with client(server, retries=2) as one:
        with pytest.raises(UpstreamFault, match=f"takes no more responses \\({code}\\)") as caught:
            await post(one)
        assert (caught.value.status, caught.value.code) == (503, "server_error")
        assert len(server.peers) == 3


@pytest.mark.parametrize("code", ["websocket_connection_limit_reached", "server_shutting_down"])
async def test_old_sockets_are_no_tries(server: SocketUpstream, code: str) -> None:
    async with client(server, retries=0, lanes=2) as one:
        running = [await opened(server, one)]
        running.append(await opened(server, one, running[0].peer))
        running.append(await opened(server, one))
        running.append(await opened(server, one, running[2].peer))
        old = [running[0].peer, running[2].peer]
        for each in (running[0], running[2]):
            await each.finish()
        posting = asyncio.create_task(post(one))
        for peer in old:
            await peer.error(await peer.asked(), code)
        new = await server.accept()
        await new.created(await new.asked())
        with anyio.fail_after(HANG):
            (await posting).close()
