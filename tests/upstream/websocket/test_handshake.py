"""Reaching a backend's WebSocket: refusals, TLS, proxies, answers that are none."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from gateway.upstream.transport.faults import BackendAnswered
from gateway.upstream.transport.websocket.client import WebSocketClient
from gateway.upstream.transport.websocket.limits import WebSocketLimits
from lanes.errors import UpstreamFault
from tests.support import raw_http_server
from tests.support.websocket_upstream import Opened, client, opened, post, running
from tests.upstream.test_secure import tunnel

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from tests.support.websocket_upstream import SocketUpstream


@pytest.fixture
async def http() -> AsyncIterator[raw_http_server.RawHttpServer]:
    """A server that says what it is told to, byte by byte."""
    async with raw_http_server.running() as one:
        yield one


def to(http: raw_http_server.RawHttpServer, retries: int = 0, **terms: Any) -> WebSocketClient:
    return WebSocketClient(http.url, WebSocketLimits(**terms), retries=retries, proxies={})


async def refused(one: WebSocketClient) -> UpstreamFault:
    with pytest.raises(UpstreamFault) as caught:
        await post(one)
    await one.aclose()
    return caught.value


def error_body(code: str) -> bytes:
    return json.dumps({"error": {"message": "no", "code": code, "type": "t"}}).encode()


@pytest.mark.parametrize("status", [401, 403, 404, 426, 500])
async def test_a_refusal_is_that_of_a_post(
    http: raw_http_server.RawHttpServer, status: int
) -> None:
    refusing = asyncio.create_task(refused(to(http, retries=2)))
    [request] = await http.serve(raw_http_server.answer(status, error_body("c"), x_request_id="r1"))
    fault = await refusing
    assert isinstance(fault, BackendAnswered)
    assert (fault.status, fault.code, fault.type, fault.message) == (status, "c", "t", "no")
    assert fault.headers == {"x-request-id": "r1"}
    assert request.line == "GET /v1/responses HTTP/1.1"
    assert request.headers["Upgrade"] == "websocket"
    assert len(http.peers) == 1


async def test_what_is_refused_for_now_is_tried_again(http: raw_http_server.RawHttpServer) -> None:
    refusing = asyncio.create_task(refused(to(http, retries=1)))
    answers = [raw_http_server.answer(503, error_body("a"), connection="close")]
    answers += [raw_http_server.answer(429, error_body("b"), retry_after="0", connection="close")]
    for answer in answers:
        peer = await http.accept()
        await peer.request()
        peer.send(answer)
        peer.close()
    fault = await refusing
    assert (fault.status, fault.code) == (429, "b")
    assert fault.headers == {"retry-after": "0"}
    assert len(http.peers) == 2


@pytest.mark.parametrize("cut", [1, 7, 10_000])
async def test_a_chunked_refusal(http: raw_http_server.RawHttpServer, cut: int) -> None:
    refusing = asyncio.create_task(refused(to(http)))
    peer = await http.accept()
    await peer.request()
    head = b"HTTP/1.1 401 No\r\ntransfer-encoding: chunked\r\ncontent-type: text/plain\r\n\r\n"
    data = head + b"5\r\nno, y\r\n3\r\nou!\r\n0\r\n\r\n"
    for at in range(0, len(data), cut):
        peer.send(data[at : at + cut])
        await peer.writer.drain()
        await asyncio.sleep(0)
    fault = await refusing
    assert (fault.status, fault.code, fault.message) == (401, "invalid_api_key", "no, you!")


async def test_a_refusal_until_the_connection_closes(http: raw_http_server.RawHttpServer) -> None:
    refusing = asyncio.create_task(refused(to(http)))
    peer = await http.accept()
    await peer.request()
    peer.send(b"HTTP/1.1 403 No\r\ncontent-type: text/plain\r\n\r\nnever")
    peer.close()
    fault = await refusing
    assert (fault.status, fault.message) == (403, "never")


async def test_a_refusal_without_end(http: raw_http_server.RawHttpServer) -> None:
    refusing = asyncio.create_task(refused(to(http)))
    peer = await http.accept()
    await peer.request()
    peer.send(b"HTTP/1.1 500 No\r\ncontent-type: text/plain\r\n\r\n" + b"x" * 200_000)
    assert (await refusing).status == 500


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", "answered 200"),
        (b"SSH-2.0-x\r\n\r\n", "no HTTP/1.1"),
        (b"HTTP/1.1 101 X\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n", "upgrade to a We"),
        (b"HTTP/1.1 101 X\r\nx: " + b"y" * 300_000, "a head without end"),
    ],
)
async def test_answers_that_are_none(
    http: raw_http_server.RawHttpServer, data: bytes, why: str
) -> None:
    refusing = asyncio.create_task(refused(to(http)))
    peer = await http.accept()
    await peer.request()
    peer.send(data)
    fault = await refusing
    assert why in fault.message
    assert fault.status == 502


async def test_no_answer(http: raw_http_server.RawHttpServer) -> None:
    fault = await refused(to(http, retries=2, connect=0.1))
    assert fault.message == "The backend did not answer the upgrade within 0.1 seconds."
    assert (fault.status, len(http.peers)) == (504, 1)


async def test_hanging_up_is_tried_again(http: raw_http_server.RawHttpServer) -> None:
    refusing = asyncio.create_task(refused(to(http, retries=1)))
    for _ in range(2):
        peer = await http.accept()
        await peer.request()
        peer.close()
    fault = await refusing
    assert (fault.status, fault.message) == (502, "The backend closed the connection.")


async def test_nobody_is_there() -> None:
    async with raw_http_server.running() as gone:
        one = to(gone)
    fault = await refused(one)
    assert "could not be reached" in fault.message


async def test_each_of_those_that_waited_has_a_fault_of_its_own(
    http: raw_http_server.RawHttpServer,
) -> None:
    one = to(http)
    posting = [asyncio.create_task(post(one)) for _ in range(2)]
    await http.serve(raw_http_server.answer(404, error_body("c")))
    first, second = await asyncio.gather(*posting, return_exceptions=True)
    assert isinstance(first, UpstreamFault)
    assert isinstance(second, UpstreamFault)
    assert first is not second
    assert first.__dict__ == second.__dict__
    await one.aclose()


async def test_closed_while_it_is_dialled(http: raw_http_server.RawHttpServer) -> None:
    one = to(http)
    posting = asyncio.create_task(post(one))
    peer = await http.accept()
    await one.aclose()
    with pytest.raises(UpstreamFault, match="shutting down"):
        await posting
    await peer.request()
    assert await peer.gone()


async def test_closed_before_it_was_dialled(http: raw_http_server.RawHttpServer) -> None:
    one = to(http)
    posting = asyncio.create_task(post(one))
    await asyncio.sleep(0)
    await one.aclose()
    with pytest.raises(UpstreamFault, match="shutting down"):
        await posting


async def test_a_header_that_cannot_be_sent(server: SocketUpstream) -> None:
    async with client(server) as one:
        with pytest.raises(ValueError, match="'x y' cannot be sent"):
            await post(one, **{"x y": "1"})


async def test_events_that_come_with_the_upgrade(server: SocketUpstream) -> None:
    """In the same read as the answer: nothing of it is lost."""
    async with client(server) as one:
        posting = asyncio.create_task(post(one))
        peer = await server.accept()
        await peer.say("rate_limits.updated")
        await peer.created(await peer.asked())
        (await posting).close()


@pytest.mark.parametrize("secured", [False, True])
async def test_a_tunnel_whatever_the_scheme(
    ours: ssl.SSLContext, theirs: ssl.SSLContext, secured: bool
) -> None:
    scheme = "https" if secured else "http"
    async with running(ssl=ours if secured else None) as server, raw_http_server.running() as proxy:
        by = f"http://me:secret@127.0.0.1:{proxy.port}"
        url = f"{scheme}://127.0.0.1:{server.port}/v1"
        one = WebSocketClient(url, proxies={scheme: by}, tls=theirs if secured else None)
        carrying = asyncio.create_task(tunnel(proxy, server.port))
        response: Opened = await opened(server, one)
        await response.says("a")
        await response.have("a")
        await response.finish()
        await one.aclose()
        await carrying


async def test_a_certificate_that_does_not_hold(ours: ssl.SSLContext) -> None:
    async with running(ssl=ours) as server:
        one = WebSocketClient(f"https://127.0.0.1:{server.port}", proxies={})
        assert "No TLS connection" in (await refused(one)).message
