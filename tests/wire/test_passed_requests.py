"""What becomes of a request that is passed on: early answers, sudden ends, keys and queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from gateway.config.settings import Settings
from tests.support.error_log import expect_no_errors
from tests.support.exchange import hung_up
from tests.support.gateway import running
from tests.support.hang_guard import HANG
from tests.support.http_client import Answer, requested
from tests.support.raw_client import tcp
from tests.support.raw_http_server import answer as raw_answer
from tests.support.raw_http_server import running as raw_server
from tests.support.wire_stand import standing

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from tests.support.exchange import Exchange

JSON = {"content-type": "application/json"}
UPLOAD = "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"


def asking(
    url: str, path: str, method: str = "POST", **headers: str
) -> AbstractAsyncContextManager[Answer]:
    return requested(url, method, path, b"{}", JSON | headers, judged=False)


async def test_a_backend_may_answer_before_it_has_the_whole_body() -> None:
    """The rest is read and dropped, so that the client's next request is understood."""
    size = 4 << 20
    async with (
        raw_server() as backend,
        standing(upstream=backend.url) as stand,
        tcp(stand.port) as client,
    ):
        await client.write((UPLOAD % size).encode() + bytes(size // 2))
        peer = await backend.accept()
        await peer.reader.readuntil(b"\r\n\r\n")
        peer.send(raw_answer(413, b'{"error": 1}', content_type="application/json"))
        answer = Answer(lambda: client.read(1 << 16), None)
        assert await answer.body() == b'{"error": 1}'
        assert answer.status == 413
        with anyio.fail_after(HANG):
            while await peer.reader.read(1 << 20):  # the gateway does not use it again
                pass
        await client.write(bytes(size // 2) + (UPLOAD % 2).encode() + b"{}")
        peer = await backend.accept()
        assert (await peer.request()).body == b"{}"
        peer.send(raw_answer(200, b"{}"))
        answer = Answer(lambda: client.read(1 << 16), None)
        assert await answer.body() == b"{}"


async def test_a_client_that_leaves_within_its_body_cancels() -> None:
    async with raw_server() as backend, standing(upstream=backend.url) as stand:
        async with tcp(stand.port) as client:
            await client.write((UPLOAD % 1_000_000).encode() + bytes(100_000))
            peer = await backend.accept()
            await peer.reader.readexactly(100_000)
        with anyio.fail_after(HANG):
            while await peer.reader.read(1 << 20):
                pass


async def test_a_short_body_is_sent_again_after_a_stale_connection() -> None:
    """A long one gets a new connection, because it could not be."""
    async with raw_server() as backend, standing(upstream=backend.url) as stand:

        async def served() -> None:
            await backend.serve(raw_answer(200))
            peer = backend.peers[0]
            await peer.request()
            peer.close()  # it had closed it already, as far as it knows
            await backend.serve(raw_answer(201))
            await backend.serve(raw_answer(202))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(served)
            for status, body in ((200, b"{}"), (201, b"{}"), (202, bytes(200_000))):
                async with requested(
                    stand.url, "POST", "/embeddings", body, JSON, judged=False
                ) as answer:
                    assert answer.status == status
        assert len(backend.peers) == 3


@pytest.mark.parametrize("begun", [False, True], ids=["waiting", "answering"])
async def test_a_gateway_that_has_waited_long_enough_ends_it(begun: bool) -> None:
    async with standing(drain_timeout=0.5) as stand, tcp(stand.port) as client:
        await client.write((UPLOAD % 2).encode() + b"{}")
        exchange = await stand.fake.next()
        answer = Answer(lambda: client.read(1 << 16), None)
        if begun:
            await exchange.send(b"some")
            await answer.head()
        stand.server.should_exit = True
        await answer.head()
        if begun:
            while await client.read(1 << 16):
                pass
            assert not answer.whole
        else:
            assert (await answer.json())["error"]["code"] == "server_shutting_down"
            assert answer.status == 503
        await hung_up(exchange)


async def test_head_has_the_headers_alone() -> None:
    async def script(exchange: Exchange) -> None:
        lines = [b"HTTP/1.1 200 X", b"content-type: a/b", b"content-length: 1000", b"", b""]
        await exchange.write(b"\r\n".join(lines))

    async with standing(script, passthrough=("all",)) as stand, tcp(stand.port) as client:
        for _ in range(2):
            await client.write(b"HEAD /v1/files/f HTTP/1.1\r\nHost: a\r\n\r\n")
            head = b""
            with anyio.fail_after(HANG):
                while b"\r\n\r\n" not in head:
                    head += await client.read(1 << 16)
            assert head.startswith(b"HTTP/1.1 200 ")
            assert b"content-type: a/b" in head
            assert head.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("own", "asked", "sent"),
    [
        ("?api-version=1", "", "?api-version=1"),
        ("?api-version=1", "?a=b", "?api-version=1&a=b"),
        ("?api-version=1", "?api-version=2&api%2Dversion=3&b", "?api-version=1&b"),
        ("", "?a=%20&a", "?a=%20&a"),
        ("", "?", ""),
    ],
)
async def test_the_query_of_the_base_url_stays(own: str, asked: str, sent: str) -> None:
    async with (
        raw_server() as backend,
        running(Settings(upstream=backend.url + own, dialect="openai")) as url,
        anyio.create_task_group() as tasks,
    ):

        async def served() -> None:
            [request] = await backend.serve(raw_answer(200, b"{}"))
            assert request.line == f"POST /v1/embeddings{sent} HTTP/1.1"

        tasks.start_soon(served)
        async with asking(url, f"/embeddings{asked}") as answer:
            assert answer.status == 200


@pytest.mark.parametrize(
    ("settings", "name", "value"),
    [
        ({"dialect": "azure", "upstream_key": "k"}, "api-key", "k"),
        ({"dialect": "openai", "upstream_key": "k"}, "authorization", "Bearer k"),
        ({"upstream_transport": "websocket", "upstream_key": "k"}, "authorization", "Bearer k"),
        ({"forward_authorization": True}, "authorization", "Bearer mine"),
        ({}, "authorization", None),
    ],
)
async def test_which_key_the_backend_sees(
    settings: dict[str, Any], name: str, value: str | None
) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.reply(200, {})

    async with standing(script, **settings) as stand:
        async with asking(stand.url, "/embeddings", authorization="Bearer mine") as answer:
            assert answer.status == 200
        [exchange] = [one for one in stand.fake.exchanges if one.path == "/v1/embeddings"]
        assert exchange.headers.get(name) == value


async def test_pages_of_an_allowed_origin_may_use_it() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.reply(200, {}, {"access-control-allow-origin": "https://other.example"})

    origin = "https://app.example"
    async with standing(script, allow_origin=(origin,)) as stand:
        async with asking(stand.url, "/embeddings", origin=origin) as answer:
            assert answer.headers["access-control-allow-origin"] == origin
        preflight = {"origin": origin, "access-control-request-method": "POST"}
        async with asking(stand.url, "/embeddings", "OPTIONS", **preflight) as answer:
            assert answer.status == 204
        assert len(stand.fake.exchanges) == 1


async def test_a_silent_backend_is_a_504() -> None:
    with expect_no_errors():
        async with (
            raw_server() as backend,
            standing(upstream=backend.url, first_byte_timeout=0.2) as stand,
            asking(stand.url, "/embeddings") as answer,
        ):
            assert answer.status == 504
