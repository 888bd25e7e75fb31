"""The pool at its edges: what closes while nobody looks, and shutting down."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from gateway.upstream.transport.faults import StaleConnection
from gateway.upstream.transport.http.client import HttpClient
from gateway.upstream.transport.http.connection import HttpConnection
from lanes.errors import UpstreamFault
from tests.support.raw_http_server import END, HEAD, Sink, chunk, opened, post, soon, until

if TYPE_CHECKING:
    from gateway.upstream.transport.http.stream import HttpStream
    from tests.support.raw_http_server import RawHttpPeer, RawHttpServer


async def test_closing_an_unused_client() -> None:
    await HttpClient("http://127.0.0.1:1", proxies={}).aclose()


async def test_closing_with_idle_connections(server: RawHttpServer, client: HttpClient) -> None:
    stream, peer = await opened(server, client)
    peer.send(END)
    await soon(stream.relay(Sink()))
    await client.aclose()
    assert await peer.gone()
    assert (client.pool.size, client.pool.idle) == (0, 0)


async def test_closing_while_connecting(server: RawHttpServer, client: HttpClient) -> None:
    posting = asyncio.create_task(post(client))
    await asyncio.sleep(0)
    await client.aclose()
    with pytest.raises(UpstreamFault, match="shutting down"):
        await posting
    assert await (await server.accept()).gone()


async def test_closing_while_a_released_body_ends(
    server: RawHttpServer, client: HttpClient
) -> None:
    stream, _ = await opened(server, client)
    stream.release()
    await client.aclose()
    assert client.pool.size == 0


async def test_a_connection_closed_this_very_moment_is_not_used(
    server: RawHttpServer, client: HttpClient
) -> None:
    stream, peer = await opened(server, client)
    peer.send(END)
    await soon(stream.relay(Sink()))
    (connection,) = client.pool._idle
    connection.abort()
    connection.read(on=True)
    with pytest.raises(StaleConnection):
        connection.send([b""], stream._reply)
    again, _ = await opened(server, client)
    again.close()


async def test_a_connection_without_a_transport_is_closed() -> None:
    connection = HttpConnection(lambda _: None, lambda _: None, 15.0)
    assert connection.closed
    connection.abort()


async def test_what_is_over_is_freed_without_the_collector(
    server: RawHttpServer, client: HttpClient
) -> None:
    """Thousands of streams a minute leave nothing for it to find."""
    stream, peer = await opened(server, client)
    peer.send(chunk(0) + END)
    await soon(stream.relay(Sink()))
    gc.collect()
    gc.disable()
    try:
        stream, peer = await _next(client, peer)
        gone: list[weakref.ref[Any]] = [weakref.ref(stream), weakref.ref(stream._reply)]
        peer.send(chunk(0) + END)
        await soon(stream.relay(Sink()))
        del stream
        await until(lambda: all(ref() is None for ref in gone))
    finally:
        gc.enable()


async def _next(client: HttpClient, peer: RawHttpPeer) -> tuple[HttpStream, RawHttpPeer]:
    posting = asyncio.create_task(post(client))
    await peer.request()
    peer.send(HEAD)
    return await posting, peer
