"""What is tried again, how often, and that nothing is after the first event."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import anyio
import pytest

from gateway.upstream.transport.faults import TransientFault
from gateway.upstream.transport.http.client import HttpClient
from lanes.errors import UpstreamFault
from tests.support.hang_guard import HANG
from tests.support.raw_http_server import (
    END,
    HEAD,
    Sink,
    answer,
    asked,
    chunk,
    opened,
    post,
    soon,
    until,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.raw_http_server import RawHttpServer


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.upstream.transport.retries._FIRST_BACKOFF", 0.001)


@pytest.fixture
async def patient(server: RawHttpServer) -> AsyncIterator[HttpClient]:
    client = HttpClient(server.url, proxies={}, retries=2)
    yield client
    await client.aclose()


@pytest.mark.parametrize(
    "refusal",
    [
        answer(502),
        answer(503),
        answer(504),
        answer(503, retry_after="0"),
        answer(429, retry_after="0"),
        answer(429, retry_after_ms="5"),
    ],
)
async def test_tried_again(server: RawHttpServer, patient: HttpClient, refusal: bytes) -> None:
    posting = asyncio.create_task(post(patient))
    requests = await server.serve(refusal, refusal, HEAD + chunk(0) + END)
    sink = Sink()
    await soon((await posting).relay(sink))
    assert sink.numbers == [0]
    assert requests[0] == requests[1] == requests[2]
    assert patient.pool.size == 1


async def test_given_up_in_the_end(server: RawHttpServer, patient: HttpClient) -> None:
    posting = asyncio.create_task(post(patient))
    await server.serve(answer(503, b"one"), answer(502, b"two"), answer(503, b"three"))
    with pytest.raises(TransientFault, match="three"):
        await posting


@pytest.mark.parametrize(
    "refusal",
    [
        answer(400),
        answer(408),
        answer(500),
        answer(429),
        answer(429, retry_after="60"),
        answer(503, retry_after="60"),
        answer(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"),
    ],
)
async def test_not_tried_again(server: RawHttpServer, patient: HttpClient, refusal: bytes) -> None:
    posting = asyncio.create_task(post(patient))
    await server.serve(refusal)
    with pytest.raises(UpstreamFault), anyio.fail_after(HANG):
        await posting


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_kept_connection_that_is_gone_costs_nothing(
    server: RawHttpServer, patient: HttpClient, how: str
) -> None:
    """The request is already on its way when the client learns of it."""
    stream, peer = await opened(server, patient)
    peer.send(END)
    await soon(stream.relay(Sink()))
    posting = asyncio.create_task(post(patient))
    await peer.request()
    peer.close() if how == "close" else peer.reset()
    await server.serve(HEAD + chunk(1) + END)
    sink = Sink()
    await soon((await posting).relay(sink))
    assert sink.numbers == [1]


async def test_a_kept_connection_the_peer_closes_is_forgotten(
    server: RawHttpServer, patient: HttpClient
) -> None:
    stream, peer = await opened(server, patient)
    peer.send(END)
    await soon(stream.relay(Sink()))
    assert patient.pool.idle == 1
    peer.close()
    await until(lambda: patient.pool.size == 0)
    assert patient.pool.idle == 0


@pytest.mark.parametrize("how", ["close", "reset", "part"])
async def test_a_fresh_connection_that_breaks_is_a_fault(
    server: RawHttpServer, patient: HttpClient, how: str
) -> None:
    """The backend may have begun to generate: asking again could bill twice."""
    posting, peer = await asked(server, patient)
    if how == "part":
        peer.send(b"HTTP/1.1 20")
    peer.reset() if how == "reset" else peer.close()
    with pytest.raises(UpstreamFault, match="without an answer") as caught:
        await posting
    assert caught.value.status == 502


async def test_a_kept_connection_that_breaks_within_an_answer_is_a_fault(
    server: RawHttpServer, patient: HttpClient
) -> None:
    stream, peer = await opened(server, patient)
    peer.send(END)
    await soon(stream.relay(Sink()))
    posting = asyncio.create_task(post(patient))
    await peer.request()
    peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
    await peer.writer.drain()
    await asyncio.sleep(0.02)
    peer.close()
    with pytest.raises(UpstreamFault, match="without an answer"):
        await posting


async def test_connecting_is_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = HttpClient(f"http://127.0.0.1:{port}", proxies={}, retries=2)
    with pytest.raises(TransientFault, match="could not be reached: ") as caught:
        await post(client)
    assert (caught.value.status, caught.value.code) == (502, "server_error")
    client = HttpClient("http://nowhere.invalid", proxies={}, retries=0)
    with pytest.raises(UpstreamFault, match="could not be reached"):
        await post(client)


async def test_cancelled_between_two_tries(server: RawHttpServer, patient: HttpClient) -> None:
    posting = asyncio.create_task(post(patient))
    await server.serve(answer(503, retry_after="2"))
    await until(lambda: patient.pool.idle == 1)
    posting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await posting
    assert patient.pool.size == 1


async def test_cancelled_while_waiting_for_the_head(
    server: RawHttpServer, patient: HttpClient
) -> None:
    posting, peer = await asked(server, patient)
    posting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await posting
    assert await peer.gone()
