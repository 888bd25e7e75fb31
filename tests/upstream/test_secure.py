"""TLS and proxies: certificates are checked, tunnels are asked for, absolute forms are sent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from gateway.upstream.transport.http.client import HttpClient
from lanes.errors import UpstreamFault
from tests.support.raw_http_server import (
    END,
    HEAD,
    RawHttpPeer,
    RawHttpServer,
    Sink,
    answer,
    chunk,
    post,
    running,
    soon,
    until,
)

if TYPE_CHECKING:
    import ssl


async def relayed(client: HttpClient, server: RawHttpServer) -> list[int]:
    posting = asyncio.create_task(post(client))
    await server.serve(HEAD + chunk(0) + chunk(1) + END)
    sink = Sink()
    await soon((await posting).relay(sink))
    return sink.numbers


async def test_tls(ours: ssl.SSLContext, theirs: ssl.SSLContext) -> None:
    async with running(ours) as server:
        client = HttpClient(f"https://127.0.0.1:{server.port}", tls=theirs, proxies={})
        assert await relayed(client, server) == [0, 1]
        posting = asyncio.create_task(post(client))
        peer = server.peers[0]
        await peer.request()
        peer.send(HEAD + chunk(2))
        stream, sink = await posting, Sink()
        relaying = asyncio.create_task(stream.relay(sink))
        await sink.have(1)
        stream.pause()
        peer.send(chunk(3))
        stream.resume()
        await sink.have(2)
        stream.close()
        await soon(relaying)
        assert await peer.gone()
        await client.aclose()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_certificate_that_does_not_hold(
    ours: ssl.SSLContext, theirs: ssl.SSLContext, host: str
) -> None:
    """Self-signed for the default context; for another name otherwise."""
    async with running(ours) as server:
        tls = None if host == "127.0.0.1" else theirs
        client = HttpClient(f"https://{host}:{server.port}", proxies={}, tls=tls)
        with pytest.raises(UpstreamFault, match="No TLS connection") as caught:
            await post(client)
        assert "certificate" in caught.value.message or "mismatch" in caught.value.message
        await client.aclose()


async def test_a_backend_without_tls_is_said_to_have_none(server: RawHttpServer) -> None:
    client = HttpClient(f"https://127.0.0.1:{server.port}", proxies={}, connect_timeout=0.3)
    with pytest.raises(UpstreamFault, match=r"not be reached over TLS within 0\.3 seconds"):
        await post(client)  # it waits for a line, as some servers do
    posting = asyncio.create_task(post(client))
    await until(lambda: len(server.peers) == 2)
    server.peers[1].send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(UpstreamFault, match="it answers without TLS"):
        await posting
    await client.aclose()


async def test_an_absolute_form_through_a_proxy(server: RawHttpServer) -> None:
    proxy = f"http://me:secret@127.0.0.1:{server.port}"
    client = HttpClient("http://far.example/v1", proxies={"http": proxy})
    posting = asyncio.create_task(post(client))
    (request,) = await server.serve(HEAD + END)
    assert request.line == "POST http://far.example/v1/responses HTTP/1.1"
    assert request.headers["host"] == "far.example"
    assert request.headers["proxy-authorization"] == "Basic bWU6c2VjcmV0"
    await soon((await posting).relay(Sink()))
    await client.aclose()


async def tunnel(proxy: RawHttpServer, port: int) -> RawHttpPeer:
    """Be a proxy: answer CONNECT and carry bytes both ways until either end closes."""
    peer = await proxy.accept()
    request = await peer.request()
    assert request.line == f"CONNECT 127.0.0.1:{port} HTTP/1.1"
    assert request.headers == {
        "host": f"127.0.0.1:{port}",
        "proxy-authorization": "Basic bWU6c2VjcmV0",
    }
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            target.write(data)
        target.close()

    peer.send(b"HTTP/1.1 200 Connection established\r\nvia: x\r\n\r\n")
    await asyncio.gather(carry(peer.reader, writer), carry(reader, peer.writer))
    return peer


@pytest.mark.parametrize("secured", [False, True])
async def test_a_tunnel(ours: ssl.SSLContext, theirs: ssl.SSLContext, secured: bool) -> None:
    scheme = "https" if secured else "http"
    async with running(ours) as server, running(ours if secured else None) as proxy:
        url = f"{scheme}://me:secret@127.0.0.1:{proxy.port}"
        client = HttpClient(f"https://127.0.0.1:{server.port}", tls=theirs, proxies={"https": url})
        carrying = asyncio.create_task(tunnel(proxy, server.port))
        assert await relayed(client, server) == [0, 1]
        assert client.pool.idle == 1
        await client.aclose()
        await carrying


@pytest.mark.parametrize(
    ("proxy_answer", "why"),
    [(answer(407), "answered 407"), (b"", "nothing"), (b"x" * 70_000, "nothing")],
)
async def test_a_proxy_that_refuses(server: RawHttpServer, proxy_answer: bytes, why: str) -> None:
    client = HttpClient(
        "https://far.example", proxies={"https": f"http://127.0.0.1:{server.port}"}, retries=0
    )
    posting = asyncio.create_task(post(client))
    peer = await server.accept()
    await peer.request()
    peer.send(proxy_answer)
    peer.close()
    with pytest.raises(UpstreamFault, match=why):
        await posting
    await client.aclose()


async def test_cancelled_while_the_proxy_is_silent(server: RawHttpServer) -> None:
    client = HttpClient("https://far.example", proxies={"https": f"http://127.0.0.1:{server.port}"})
    posting = asyncio.create_task(post(client))
    peer = await server.accept()
    await peer.request()
    posting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await posting
    assert await peer.gone()
    await client.aclose()
