"""Requests and heads: what is sent, what is taken for a stream, which connection is used."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING

import pytest
from anyio.lowlevel import checkpoint

from gateway.upstream.transport.http.client import HttpClient
from lanes.errors import UpstreamFault
from tests.support.hang_guard import HANG
from tests.support.raw_http_server import END, HEAD, Sink, answer, asked, chunk, opened, post, soon

if TYPE_CHECKING:
    from tests.support.raw_http_server import RawHttpServer


async def test_the_request(server: RawHttpServer, client: HttpClient) -> None:
    headers = {
        "Authorization": "Bearer k",
        "Accept": "text/event-stream, */*",
        "Content-Length": "9999",
        "Transfer-Encoding": "chunked",
        "Connection": "x-secret",
        "Host": "elsewhere",
        "Accept-Encoding": "br",
    }
    posting = asyncio.create_task(client.post("/responses", b'{"a": 1}', headers))
    (request,) = await server.serve(HEAD + END)
    await soon((await posting).relay(Sink()))
    assert request.line == "POST /v1/responses HTTP/1.1"
    assert request.body == b'{"a": 1}'
    assert request.headers == {
        "host": f"127.0.0.1:{server.port}",
        "accept": "text/event-stream, */*",
        "accept-encoding": "identity",
        "authorization": "Bearer k",
        "content-length": "8",
        "content-type": "application/json",
        "user-agent": "multilane",
    }


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/a b", {}),
        ("/é", {}),
        ("responses", {}),
        ("/", {"a": "b\r\nc: d"}),
        ("/", {"a": "\0"}),
        ("/", {"a": "🙂"}),
        ("/", {"a b": "c"}),
        ("/", {"": "c"}),
    ],
)
async def test_what_cannot_be_sent(client: HttpClient, path: str, headers: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"cannot be sent|no request path"):
        await client.post(path, b"", headers)


async def test_a_large_body_arrives_whole(server: RawHttpServer, client: HttpClient) -> None:
    body = bytes(range(256)) * 40_000
    posting = asyncio.create_task(client.post("/responses", body, {}))
    (request,) = await server.serve(HEAD + END)
    assert request.body == body
    (await posting).close()


@pytest.mark.parametrize("kind", ["text/event-stream; charset=utf-8", "Text/Plain", ""])
async def test_what_may_be_a_stream(server: RawHttpServer, client: HttpClient, kind: str) -> None:
    posting = asyncio.create_task(post(client))
    await server.serve(answer(200, b"data: 1\n\n", content_type=kind))
    sink = Sink()
    await soon((await posting).relay(sink))
    assert sink.numbers == [1]


@pytest.mark.parametrize(
    "data",
    [
        answer(200, b"<p>log in", content_type="text/html"),
        answer(200, b"<p>log in", content_type="text/event-stream"),
        answer(200, b"upstream connect error", content_type="text/plain"),
        answer(200, gzip.compress(b"<p>log in", mtime=0), content_encoding="gzip"),
        answer(200, b"\x1f\x8bbroken", content_encoding="gzip"),
        answer(200, b"x", content_type="text/event-stream", content_encoding="br"),
        answer(301, location="http://127.0.0.1/"),
    ],
)
@pytest.mark.parametrize("peeked", [False, True])
async def test_what_is_no_stream(
    server: RawHttpServer, client: HttpClient, data: bytes, peeked: bool
) -> None:
    async def read() -> None:
        stream = await post(client)
        if peeked:
            await stream.first()
        await stream.relay(Sink())

    reading = asyncio.create_task(read())
    await server.serve(data)
    with pytest.raises(UpstreamFault) as caught:
        await soon(reading)
    assert caught.value.status == 502
    assert "log in" not in str(caught.value)
    assert client.pool.idle == 1


async def test_a_page_without_end_is_not_read_to_it(
    server: RawHttpServer, client: HttpClient
) -> None:
    reading = asyncio.create_task(client.post("/responses", b"{}", {}))
    await server.serve(b"HTTP/1.1 200 OK\r\n\r\n<html>" + b"x" * 100_000)
    with pytest.raises(UpstreamFault, match="instead of an event stream"):
        await soon((await reading).relay(Sink()))


async def test_a_refusal_is_read_and_told(server: RawHttpServer, client: HttpClient) -> None:
    posting = asyncio.create_task(post(client))
    body = b'{"error":{"message":"later","type":"usage_limit_reached"}}'
    await server.serve(answer(429, body, retry_after="7", set_cookie="s=1"))
    with pytest.raises(UpstreamFault, match="later") as caught:
        await posting
    assert caught.value.status == 429
    assert caught.value.headers == {"retry-after": "7"}
    assert client.pool.idle == 1


@pytest.mark.parametrize("how", ["endless", "cut", "silent"])
async def test_refusals_are_read_within_bounds(
    server: RawHttpServer, client: HttpClient, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.upstream.transport.http.client._ERROR_SECONDS", 0.1)
    posting, peer = await asked(server, client)
    peer.send(b"HTTP/1.1 400 X\r\ncontent-length: 999999999\r\n\r\n")
    peer.send(b"x" * 100_000 if how == "endless" else b"some words")
    if how == "cut":
        peer.close()
    with pytest.raises(UpstreamFault, match="xxx" if how == "endless" else "some words"):
        await posting
    assert await peer.gone()


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/2 nonsense\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"HTTP/1.1 101 Switching\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 60_000,
    ],
)
async def test_what_is_no_http(server: RawHttpServer, client: HttpClient, data: bytes) -> None:
    posting = asyncio.create_task(post(client))
    await server.serve(data)
    with pytest.raises(UpstreamFault, match=r"no HTTP/1.1|head without end") as caught:
        await posting
    assert caught.value.status == 502


async def test_interim_answers_trailers_and_cut_heads(
    server: RawHttpServer, client: HttpClient
) -> None:
    posting, peer = await asked(server, client)
    for byte in b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: x\r\n\r\n" + HEAD:
        peer.send(bytes([byte]))
        await peer.writer.drain()
        await checkpoint()
    peer.send(chunk(0) + b"0\r\nx-trailer: t\r\n\r\n")
    stream, sink = await posting, Sink()
    await soon(stream.relay(sink))
    assert sink.numbers == [0]
    assert stream.headers == {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
    assert client.pool.idle == 1


@pytest.mark.parametrize("extra", [b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx", b"junk"])
async def test_bytes_nobody_asked_for_end_the_connection(
    server: RawHttpServer, client: HttpClient, extra: bytes
) -> None:
    stream, peer = await opened(server, client)
    peer.send(chunk(0) + END + extra)
    sink = Sink()
    await soon(stream.relay(sink))
    assert sink.numbers == [0]
    assert client.pool.idle == 0
    stream, peer = await opened(server, client)
    peer.send(END)
    await soon(stream.relay(sink))
    peer.send(extra)
    assert await peer.gone()
    assert client.pool.size == 0


async def test_connections_are_reused_and_as_many_as_needed(
    server: RawHttpServer, client: HttpClient
) -> None:
    streams = [await opened(server, client) for _ in range(200)]
    assert client.pool.size == 200
    for stream, peer in streams:
        peer.send(END)
        await soon(stream.relay(Sink()))
    assert (client.pool.size, client.pool.idle) == (200, 200)
    posting = asyncio.create_task(post(client))
    last = streams[-1][1]
    await last.request()
    last.send(HEAD + END)
    await soon((await posting).relay(Sink()))


async def test_idle_connections_are_dropped(server: RawHttpServer) -> None:
    client = HttpClient(server.url, proxies={}, keep_idle=0.05)
    (first, one), (second, two) = [await opened(server, client) for _ in range(2)]
    one.send(END)
    await soon(first.relay(Sink()))
    assert await one.gone()
    assert (client.pool.size, client.pool.idle) == (1, 0)
    two.send(END)
    await soon(second.relay(Sink()))
    assert await two.gone()
    await client.aclose()


async def test_a_small_ask(server: RawHttpServer, client: HttpClient) -> None:
    """The whole answer, whatever its status; the connection is kept for the next."""
    answers = answer(200, b'{"data": []}', server="x"), answer(404, b"no")
    serving = asyncio.create_task(server.serve(*answers))
    fetched = await asyncio.wait_for(client.fetch("GET", "/models", {"a": "b"}), HANG)
    assert (fetched.status, fetched.body, fetched.headers["server"]) == (200, b'{"data": []}', "x")
    missing = await asyncio.wait_for(client.fetch("POST", "/probe", {}, b"{}"), HANG)
    assert (missing.status, missing.body) == (404, b"no")
    got, posted = await serving
    assert (got.line, got.headers["a"]) == ("GET /v1/models HTTP/1.1", "b")
    assert (posted.line, posted.body) == ("POST /v1/probe HTTP/1.1", b"{}")


async def test_a_small_ask_takes_no_longer_than_it_may(
    server: RawHttpServer, client: HttpClient
) -> None:
    asking = asyncio.create_task(client.fetch("GET", "/models", {}, timeout=0.05))
    await server.accept()
    with pytest.raises(UpstreamFault, match=r"0\.05 seconds") as caught:
        await asyncio.wait_for(asking, HANG)
    assert caught.value.status == 504
