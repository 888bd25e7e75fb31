"""A create that a backend may have begun is not sent again, unless retries allow it (D28)."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING

import pytest

from lanes.errors import UpstreamFault
from tests.support.websocket_upstream import client, post

if TYPE_CHECKING:
    from gateway.upstream.transport.websocket.client import WebSocketClient
    from gateway.upstream.transport.websocket.stream import WebSocketStream
    from tests.support.websocket_upstream import SocketPeer, SocketUpstream

LIMIT = "websocket_connection_limit_reached"


async def begun(
    server: SocketUpstream, one: WebSocketClient, lanes: int
) -> tuple[SocketPeer, WebSocketStream]:
    """A socket on which a response runs."""
    posting = asyncio.create_task(post(one))
    peer = await server.accept()
    lane = await peer.asked()
    assert (lane is None) == (lanes == 1)
    await peer.created(lane)
    return peer, await posting


async def used(server: SocketUpstream, one: WebSocketClient) -> SocketPeer:
    """A socket on which a response has ended."""
    peer, stream = await begun(server, one, 16)
    await peer.ended("lane15")
    await stream.relay(lambda _: None)
    assert one.sockets.busy == [0]
    return peer


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("late", [False, True])
async def test_a_full_socket_that_names_no_create(
    server: SocketUpstream, monkeypatch: pytest.MonkeyPatch, lanes: int, late: bool
) -> None:
    """Soon after the create it is the refusal of it; later the backend may have begun with it."""
    monkeypatch.setattr(
        "gateway.upstream.transport.websocket.error_events.MOMENT", -1.0 if late else 60.0
    )
    async with client(server, retries=0, lanes=lanes) as one:
        peer, first = await begun(server, one, lanes)
        if lanes == 1:
            await peer.ended(None)
            await first.relay(lambda _: None)
        posting = asyncio.create_task(post(one))
        await peer.asked()
        await peer.error(None, LIMIT)
        if late:
            with pytest.raises(UpstreamFault, match="takes no more responses") as caught:
                await posting
            assert caught.value.status == 503
            assert len(server.peers) == 1
        else:
            other = await server.accept()
            await other.created(await other.asked())
            (await posting).close()


async def test_a_named_refusal_is_never_work(
    server: SocketUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.upstream.transport.websocket.error_events.MOMENT", 0.0)
    async with client(server, retries=0) as one:
        peer, _ = await begun(server, one, 16)
        posting = asyncio.create_task(post(one))
        await peer.error(await peer.asked(), LIMIT)
        other = await server.accept()
        await other.created(await other.asked())
        (await posting).close()


@pytest.mark.parametrize("retries", [0, 1])
@pytest.mark.parametrize("how", ["abort", "close"])
async def test_a_socket_that_dies_with_creates_on_it(
    server: SocketUpstream, retries: int, how: str
) -> None:
    """What had begun is cut; what had not is sent again if a retry is left, and only then."""
    async with client(server, retries=retries) as one:
        peer, first = await begun(server, one, 16)
        relaying = asyncio.create_task(first.relay(lambda _: None))
        waiting = [asyncio.create_task(post(one)) for _ in range(2)]
        for _ in waiting:
            await peer.asked()
        if how == "abort":
            peer.socket.transport.abort()
        else:
            await peer.socket.close(1012)
        with pytest.raises(UpstreamFault, match="socket"):
            await relaying
        if retries:
            other = await server.accept()
            for _ in waiting:
                await other.created(await other.asked())
            for posting in waiting:
                (await posting).close()
            assert len(other.frames) == 2
        else:
            for posting in waiting:
                with pytest.raises(UpstreamFault, match="socket"):
                    await posting
            assert len(server.peers) == 1


async def test_an_idle_socket_that_has_ended_is_seen_before_it_is_used(
    server: SocketUpstream,
) -> None:
    """The end has arrived, but the loop had no turn to read it: no try goes."""
    async with client(server, retries=0) as one:
        peer = await used(server, one)
        number = peer.socket.transport.get_extra_info("socket").fileno()
        with socket.socket(fileno=os.dup(number)) as end:
            end.shutdown(socket.SHUT_RDWR)
        posting = asyncio.create_task(post(one))  # its first step comes before any read
        other = await server.accept()
        await other.created(await other.asked())
        (await posting).close()
