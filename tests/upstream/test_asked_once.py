"""A request that a backend may have worked on is not sent twice, unless retries allow it (D28)."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest

from gateway.upstream.transport.http.client import HttpClient
from lanes.errors import UpstreamFault
from tests.support.hang_guard import HANG
from tests.support.raw_http_server import (
    END,
    HEAD,
    Sink,
    answer,
    chunk,
    opened,
    post,
    soon,
    until,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.raw_http_server import RawHttpPeer, RawHttpServer

WITHIN, LATER = 60.0, -1.0
DEATHS = ["close", "reset"]


@pytest.fixture(autouse=True)
def moment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    """What counts as a moment: no test depends on how fast it runs."""
    length: float = getattr(request, "param", WITHIN)
    monkeypatch.setattr("gateway.upstream.transport.http.connection.MOMENT", length)
    return length


@pytest.fixture
async def strict(server: RawHttpServer) -> AsyncIterator[HttpClient]:
    """A client that tries nothing again."""
    client = HttpClient(server.url, proxies={}, retries=0)
    yield client
    await client.aclose()


@pytest.fixture
async def patient(server: RawHttpServer) -> AsyncIterator[HttpClient]:
    client = HttpClient(server.url, proxies={}, retries=1)
    yield client
    await client.aclose()


async def kept(server: RawHttpServer, client: HttpClient) -> RawHttpPeer:
    """The other end of a connection that was used and is idle."""
    stream, peer = await opened(server, client)
    peer.send(END)
    await soon(stream.relay(Sink()))
    assert client.pool.idle == 1
    return peer


def die(peer: RawHttpPeer, how: str) -> None:
    peer.close() if how == "close" else peer.reset()


async def no_more(server: RawHttpServer, client: HttpClient) -> None:
    """Nothing else was connected or asked: the next request is the next thing that arrives."""
    fence = asyncio.create_task(client.fetch("GET", "/fence", {}))
    peer = await server.accept()
    assert (await peer.request()).line.startswith("GET /v1/fence ")
    peer.send(answer(204))
    await fence


@pytest.mark.parametrize("how", DEATHS)
@pytest.mark.parametrize("moment", [WITHIN, LATER], indirect=True)
async def test_without_retries_nothing_is_asked_twice(
    server: RawHttpServer, strict: HttpClient, how: str
) -> None:
    peer = await kept(server, strict)
    posting = asyncio.create_task(post(strict))
    await peer.request()
    die(peer, how)
    with pytest.raises(UpstreamFault, match="without an answer") as caught:
        await posting
    assert (caught.value.status, caught.value.code) == (502, "server_error")
    await no_more(server, strict)


@pytest.mark.parametrize("how", DEATHS)
async def test_a_stale_connection_costs_one_try(
    server: RawHttpServer, patient: HttpClient, how: str
) -> None:
    peer = await kept(server, patient)
    posting = asyncio.create_task(post(patient))
    await peer.request()
    die(peer, how)
    await server.serve(HEAD + chunk(1) + END)
    sink = Sink()
    await soon((await posting).relay(sink))
    assert sink.numbers == [1]


async def test_all_tries_together_are_as_many_as_allowed(
    server: RawHttpServer, patient: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.upstream.transport.retries._FIRST_BACKOFF", 0.001)
    peer = await kept(server, patient)
    posting = asyncio.create_task(post(patient))
    await peer.request()
    peer.close()
    await server.serve(answer(503, b"busy"))
    with pytest.raises(UpstreamFault, match="busy"):
        await posting
    assert len(server.peers) == 2


@pytest.mark.parametrize("how", DEATHS)
@pytest.mark.parametrize("moment", [LATER], indirect=True)
async def test_what_may_have_been_worked_on_is_a_fault(
    server: RawHttpServer, patient: HttpClient, how: str
) -> None:
    peer = await kept(server, patient)
    posting = asyncio.create_task(post(patient))
    await peer.request()
    die(peer, how)
    with pytest.raises(UpstreamFault, match="without an answer"):
        await posting
    await no_more(server, patient)


async def test_a_stale_connection_takes_the_idle_ones_along(
    server: RawHttpServer, patient: HttpClient
) -> None:
    """They have been idle for longer, so the try that is left is not spent on one of them."""
    streams = [await opened(server, patient) for _ in range(3)]
    for stream, peer in streams:
        peer.send(END)
        await soon(stream.relay(Sink()))
    posting = asyncio.create_task(post(patient))
    last = streams[-1][1]
    await last.request()  # the last used first
    last.close()
    await server.serve(HEAD + END)
    await soon((await posting).relay(Sink()))
    for _, peer in streams[:-1]:
        assert await peer.gone()


class ByHand:
    """A listening socket of which the test makes each call, between two turns of the loop."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.setblocking(False)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/v1"

    async def accept(self) -> socket.socket:
        async with asyncio.timeout(HANG):
            peer, _ = await asyncio.get_running_loop().sock_accept(self._listening)
        return peer

    async def answer(self, peer: socket.socket, data: bytes) -> bytes:
        """Read a request, which has no long body here, and answer it."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(HANG):
            request = await loop.sock_recv(peer, 65536)
            while b"\r\n\r\n{}" not in request:
                request += await loop.sock_recv(peer, 65536)
            await loop.sock_sendall(peer, data)
        return request

    def close(self) -> None:
        self._listening.close()


@pytest.mark.parametrize("last", [b"", b"HTTP/1.1 408 X\r\ncontent-length: 0\r\n\r\n"])
async def test_what_has_ended_is_seen_before_it_is_used(last: bytes) -> None:
    """The end has arrived, but the loop had no turn to read it: nothing is sent, so no try goes."""
    by_hand = ByHand()
    client = HttpClient(by_hand.url, proxies={}, retries=0)
    posting = asyncio.create_task(post(client))
    first = await by_hand.accept()
    await by_hand.answer(first, HEAD + END)
    await soon((await posting).relay(Sink()))
    await until(lambda: client.pool.idle == 1)
    if last:
        first.send(last)
    else:
        first.close()
    posting = asyncio.create_task(post(client))  # its first step comes before any read
    second = await by_hand.accept()
    await by_hand.answer(second, HEAD + chunk(7) + END)
    sink = Sink()
    await soon((await posting).relay(sink))
    assert sink.numbers == [7]
    await client.aclose()
    for one in (first, second, by_hand):
        one.close()


@pytest.mark.parametrize(
    ("hint", "seconds"),
    [
        ("timeout=5", 4),
        ("timeout=5, max=100", 4),
        ("max=100,Timeout = 8", 7),
        ('timeout="3"', 2),
        ("timeout=1", 0.5),
        ("timeout=600", 15),
        ("max=7", 15),
        ("timeout=soon", 15),
        ("xtimeout=2", 15),
        ("timeout=99999999999999999999", 15),
    ],
)
async def test_it_is_kept_no_longer_than_the_backend_says(
    server: RawHttpServer, strict: HttpClient, hint: str, seconds: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("gateway.upstream.transport.http.connection.MOMENT", 1.0)
    posting = asyncio.create_task(strict.fetch("GET", "/models", {}))
    peer = await server.accept()
    await peer.request()
    before = asyncio.get_running_loop().time()
    peer.send(answer(200, b"x", keep_alive=hint))
    await posting
    (connection,) = strict.pool._idle
    after = asyncio.get_running_loop().time()
    assert before + seconds <= connection.idle_until <= after + seconds


async def test_each_is_kept_by_its_own_hint(server: RawHttpServer, strict: HttpClient) -> None:
    fetches = [asyncio.create_task(strict.fetch("GET", f"/{n}", {})) for n in range(3)]
    peers = [await server.accept() for _ in fetches]
    for peer in peers:
        await peer.request()
    for peer, hint in zip(peers, ("timeout=60", "timeout=0", "max=9"), strict=True):
        peer.send(answer(200, keep_alive=hint))
    await asyncio.gather(*fetches)
    assert await peers[1].gone()
    assert strict.pool.idle == 2


@pytest.mark.parametrize("how", DEATHS)
async def test_a_get_is_asked_again(server: RawHttpServer, strict: HttpClient, how: str) -> None:
    """It changes nothing at the backend, so it may be repeated (RFC 9110, section 9.2.2)."""
    peer = await kept(server, strict)
    fetching = asyncio.create_task(strict.fetch("GET", "/models", {}))
    await peer.request()
    die(peer, how)
    await server.serve(answer(200, b"here"))
    assert (await fetching).body == b"here"


@pytest.mark.parametrize(
    ("moment", "method"), [(LATER, "GET"), (WITHIN, "POST")], indirect=["moment"]
)
async def test_a_fetch_that_may_have_been_worked_on_is_a_fault(
    server: RawHttpServer, patient: HttpClient, method: str
) -> None:
    peer = await kept(server, patient)
    fetching = asyncio.create_task(patient.fetch(method, "/responses", {}, b"{}"))
    await peer.request()
    peer.close()
    with pytest.raises(UpstreamFault, match="without an answer"):
        await fetching
    await no_more(server, patient)
