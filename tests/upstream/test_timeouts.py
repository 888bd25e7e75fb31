"""Silence ends a stream, any byte keeps it, and a pause is no silence."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from gateway.upstream.transport.http.client import HttpClient
from lanes.errors import UpstreamFault
from tests.support.raw_http_server import END, Sink, chunk, opened, post, soon

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.raw_http_server import RawHttpServer


@pytest.fixture
async def hasty(server: RawHttpServer) -> AsyncIterator[HttpClient]:
    client = HttpClient(
        server.url, proxies={}, first_byte_timeout=1.0, idle_timeout=0.5, connect_timeout=0.5
    )
    yield client
    await client.aclose()


def check(fault: UpstreamFault, seconds: str) -> None:
    assert fault.message == f"The backend sent nothing for {seconds} seconds."
    assert (fault.status, fault.code, fault.type) == (504, "timeout", "server_error")


async def test_no_head(server: RawHttpServer, hasty: HttpClient) -> None:
    posting = asyncio.create_task(post(hasty))
    peer = await server.accept()
    with pytest.raises(UpstreamFault) as caught:
        await posting
    check(caught.value, "1")
    await peer.request()
    assert await peer.gone()


async def test_a_head_and_no_body(server: RawHttpServer, hasty: HttpClient) -> None:
    """Prompt processing comes after the head: it has the first limit, not the idle one."""
    stream, peer = await opened(server, hasty)
    with pytest.raises(UpstreamFault) as caught:
        await soon(stream.relay(Sink()))
    check(caught.value, "1")
    assert await peer.gone()


async def test_silence_within_the_body(server: RawHttpServer, hasty: HttpClient) -> None:
    stream, peer = await opened(server, hasty)
    sink = Sink()
    relaying = asyncio.create_task(stream.relay(sink))
    peer.send(chunk(0))
    with pytest.raises(UpstreamFault) as caught:
        await soon(relaying)
    check(caught.value, "0.5")
    assert sink.numbers == [0]
    assert await peer.gone()


async def test_comments_and_single_bytes_keep_it(server: RawHttpServer, hasty: HttpClient) -> None:
    stream, peer = await opened(server, hasty)
    sink = Sink()
    relaying = asyncio.create_task(stream.relay(sink))
    for data in [chunk(0), *[b"8\r\n: ping\n\n\r\n"] * 12, *(bytes([byte]) for byte in b"2\r\nd")]:
        peer.send(data)
        await asyncio.sleep(0.04)
    peer.send(b"a\r\n6\r\nta: 1\n\r\n" + END)
    await soon(relaying)
    assert sink.numbers == [0, 1]


async def test_a_pause_is_no_silence(server: RawHttpServer, hasty: HttpClient) -> None:
    stream, peer = await opened(server, hasty)
    sink = Sink()
    relaying = asyncio.create_task(stream.relay(sink))
    peer.send(chunk(0))
    await sink.have(1)
    stream.pause()
    done, _ = await asyncio.wait([relaying], timeout=1.2)
    assert not done
    stream.resume()
    peer.send(chunk(1) + END)
    await soon(relaying)
    assert sink.numbers == [0, 1]


async def test_waiting_for_relay_is_no_silence(server: RawHttpServer, hasty: HttpClient) -> None:
    stream, peer = await opened(server, hasty)
    peer.send(chunk(0))
    await asyncio.sleep(1.2)
    sink = Sink()
    relaying = asyncio.create_task(stream.relay(sink))
    await sink.have(1)
    peer.send(chunk(1) + END)
    await soon(relaying)
    assert sink.numbers == [0, 1]


async def test_no_connection(server: RawHttpServer) -> None:
    """A TLS server that never says a word, as a blackholed one would be."""
    client = HttpClient(f"https://127.0.0.1:{server.port}", proxies={}, connect_timeout=0.1)
    with pytest.raises(UpstreamFault, match=r"within 0\.1 seconds") as caught:
        await post(client)
    assert (caught.value.status, caught.value.code) == (504, "timeout")
    peer = await server.accept()
    assert len(server.peers) == 1  # and is not asked again
    peer.close()
    await client.aclose()
