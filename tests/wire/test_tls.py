"""The main port by TLS: its door, its certificate, and that all goes by it as it does without."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import ssl
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from cryptography import x509

from bench.loopback_certificate import key_and_certificate
from gateway.client import peers
from gateway.client.http_protocol import ClientHttp
from gateway.client.tls_handshake import TlsHandshake
from tests.support.client import connect
from tests.support.events import closed, completed, created, delta, in_progress, message, opened
from tests.support.hand_clock import hand_clock
from tests.support.hang_guard import HANG
from tests.support.http_client import posted, requested
from tests.support.raw_answer import WEBSOCKET, head, last_answer, rest
from tests.support.raw_client import frame, tcp
from tests.support.tls_client import TlsClient, secured
from tests.support.wire_stand import WireStand, disconnected, sockets, standing, unread
from tests.upstream.conftest import certificate
from tests.wire.test_drain import RESTART, stop
from tests.wire.test_slow_reader import BOUND, babble, full

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.exchange import Exchange

__all__ = ["certificate"]
HEALTH = head(["Host: a"], "GET /health HTTP/1.1")


@pytest.fixture
def trusted(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate)


@asynccontextmanager
async def secure(certificate: Path, *script: Any, **settings: Any) -> AsyncIterator[WireStand]:
    async with standing(*script, tls_cert=str(certificate), **settings) as stand:
        yield stand
        with anyio.fail_after(HANG):
            while stand.server.gateway.peers.open:  # noqa: ASYNC110 - there is no event for it
                await anyio.sleep(0.005)
        assert stand.server.gateway.peers.pending("127.0.0.1") == 0


async def accepted(stand: WireStand, number: int) -> None:
    """So many connections are counted."""
    with anyio.fail_after(HANG):
        while stand.server.gateway.peers.open != number:  # noqa: ASYNC110 - there is no event
            await anyio.sleep(0.001)


async def answering(exchange: Exchange) -> None:
    await exchange.send(created(), in_progress(), *opened(), delta("ok"), *closed("ok"))
    await exchange.send(completed(output=[message("ok")]))
    await exchange.end()


async def test_sockets_and_requests_go_by_tls(certificate: Path, trusted: ssl.SSLContext) -> None:
    trusted.set_alpn_protocols(["h2", "http/1.1"])
    async with secure(certificate, answering) as stand:
        async with connect(stand.url, ssl=trusted) as client:
            await client.create("a")
            assert (await client.ended("a"))["status"] == "completed"
            tls = client.socket.transport.get_extra_info("ssl_object")
            assert tls.selected_alpn_protocol() == "http/1.1"
            assert tls.version() in ("TLSv1.2", "TLSv1.3")
        for body in ({"stream": True}, {}):
            async with posted(stand.url, body, tls=trusted) as answer:
                assert answer.status == 200
                if body:
                    assert (await answer.events())[-1]["type"] == "response.completed"
                else:
                    assert (await answer.json())["status"] == "completed"
        context = stand.server.gateway.certificate
        assert context is not None
        assert context.context().minimum_version is ssl.TLSVersion.TLSv1_2
        # A page that came by TLS from here is of the gateway's own origin.
        page = {"Origin": f"https://127.0.0.1:{stand.port}"}
        async with connect(stand.url, ssl=trusted, headers=page):
            pass


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_handshake_may_come_in_any_pieces(
    certificate: Path, trusted: ssl.SSLContext, version: ssl.TLSVersion
) -> None:
    trusted.minimum_version = trusted.maximum_version = version
    async with secure(certificate) as stand:
        for pieces in (1, 2, 7, 0):
            async with tcp(stand.port) as raw:
                client = TlsClient(raw, trusted)
                hello = client.hello()
                if pieces:
                    raw.sock.setsockopt(6, 1, 1)  # TCP_NODELAY: each piece is a segment
                    for at in range(0, 7 * pieces, pieces):
                        await raw.write(hello[at : at + pieces])
                        await anyio.lowlevel.checkpoint()
                    await raw.write(hello[7 * pieces :])
                else:
                    await raw.write(hello)
                await client.finish(HEALTH)  # the request comes with the end of the handshake
                assert (await client.answer()).startswith(b"HTTP/1.1 200 ")


async def test_a_handshake_without_end_is_counted_and_ends(
    certificate: Path, trusted: ssl.SSLContext
) -> None:
    hello = TlsClient(None, trusted).hello()  # type: ignore[arg-type]
    rows = [b"", hello[:1], hello[:5], hello[:-1], hello]
    async with secure(certificate, handshake_timeout=600.0) as stand, AsyncExitStack() as stack:
        for number, data in enumerate(rows, 1):
            client = await stack.enter_async_context(tcp(stand.port))
            await client.write(data)
            await accepted(stand, number)
        assert stand.server.gateway.peers.pending("127.0.0.1") == len(rows)
    async with secure(certificate, handshake_timeout=0.5) as stand, AsyncExitStack() as stack:
        slow = [await stack.enter_async_context(tcp(stand.port)) for _ in rows]
        for client, data in zip(slow, rows, strict=True):
            with suppress(ConnectionError):
                await client.write(data)
        for client in slow:
            with suppress(ConnectionError):
                await rest(client)


@pytest.mark.parametrize(("behind", "said"), [(b"", b""), (HEALTH[:-2], b"HTTP/1.1 408 ")])
async def test_a_head_has_what_the_handshake_left_of_its_time(
    certificate: Path, trusted: ssl.SSLContext, behind: bytes, said: bytes
) -> None:
    async with secure(certificate, handshake_timeout=600.0) as stand, tcp(stand.port) as raw:
        await accepted(stand, 1)
        latest = asyncio.get_running_loop().time() + 600
        client = TlsClient(raw, trusted)
        await raw.write(client.hello())
        await client.finish(behind)
        with anyio.fail_after(HANG):
            while True:
                doors = stand.server.server_state.connections
                door = next((one for one in doors if isinstance(one, ClientHttp)), None)
                if door is not None and door._head == behind:
                    break
                await anyio.sleep(0.001)
        assert door._deadline is not None
        assert door._deadline.when() < latest + 0.1
        door._late()
        got = await client.answer()
        assert got.startswith(said)
        assert bool(got) == bool(said)


@pytest.mark.parametrize(
    "data",
    [HEALTH, head(WEBSOCKET), b"\x80\x2e\x01\x00\x02", b"\x00", b"SSH-2.0-x\r\n", b"\x15\x03\x01"],
)
async def test_what_is_no_tls_is_told_so(certificate: Path, data: bytes) -> None:
    async with secure(certificate) as stand, tcp(stand.port) as client:
        await client.write(data)
        answer = await last_answer(client)
        assert (answer.status, answer.error["code"]) == (400, "tls_required")
        assert "https://" in answer.error["message"]


async def test_a_handshake_that_fails_ends_its_connection(certificate: Path) -> None:
    async with secure(certificate) as stand:
        distrusting = ssl.create_default_context()
        with pytest.raises(ssl.SSLCertVerificationError):
            async with secured(stand.port, distrusting):
                pass
        async with tcp(stand.port) as client:
            await client.write(b"\x16\x03\x01\x00\x05hello")
            await rest(client)
        async with tcp(stand.port) as client:
            await client.write(b"\x16")
            client.abort()


async def test_a_handshake_may_be_cut_at_any_moment(
    certificate: Path, trusted: ssl.SSLContext
) -> None:
    async with secure(certificate) as stand:
        for turns in range(12):
            async with tcp(stand.port) as client:
                await accepted(stand, 1)
                doors = stand.server.server_state.connections
                [door] = [one for one in doors if isinstance(one, TlsHandshake)]
                door.data_received(TlsClient(client, trusted).hello())
                for _ in range(turns):
                    await anyio.lowlevel.cancel_shielded_checkpoint()
                door.shutdown()
                with suppress(ConnectionError):
                    await rest(client)
            await accepted(stand, 0)


async def test_any_bytes_end_their_own_connection(
    certificate: Path, trusted: ssl.SSLContext
) -> None:
    dice = random.Random(7)
    async with secure(certificate) as stand:
        for _ in range(150):
            async with tcp(stand.port) as client:
                data = bytearray(TlsClient(client, trusted).hello())
                for _ in range(dice.randrange(1, 8)):
                    data[dice.randrange(1, len(data))] = dice.randrange(256)
                with suppress(ConnectionError):
                    await client.write(bytes(data[: dice.randrange(1, len(data) + 1)]))
                    client.sock.shutdown(socket.SHUT_WR)
                    await rest(client)
        async with connect(stand.url, ssl=trusted):
            pass


async def test_of_a_crowd_nobody_is_waited_for(certificate: Path, trusted: ssl.SSLContext) -> None:
    settings = {"max_pending_per_address": 2, "handshake_timeout": 200.0}
    async with secure(certificate, **settings) as stand, AsyncExitStack() as stack:
        for number in (1, 2):
            await stack.enter_async_context(tcp(stand.port))
            await accepted(stand, number)
        async with tcp(stand.port) as third:
            await third.write(TlsClient(third, trusted).hello())
            await rest(third)


async def test_beyond_all_room_there_is_no_handshake(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "HEADROOM", 0)
    async with secure(certificate, max_connections=1) as stand, tcp(stand.port):
        await accepted(stand, 1)
        async with tcp(stand.port) as client:
            with suppress(ConnectionError):
                assert await rest(client) == b""


async def test_a_trusted_proxy_names_its_client_by_tls(
    certificate: Path, trusted: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "multilane.access")
    settings = {"trusted_proxy": ("127.0.0.1",), "access_log": "info"}
    async with secure(certificate, **settings) as stand:
        named = {"X-Forwarded-For": "192.0.2.7"}
        async with connect(stand.url, ssl=trusted, headers=named):
            pass
    [line] = [one for one in caplog.records if one.getMessage() == "connection opened"]
    assert line.__dict__["fields"]["forwarded"] == "192.0.2.7"


async def test_output_has_its_bound(certificate: Path, trusted: ssl.SSLContext) -> None:
    async with (
        secure(certificate, babble, max_output_bytes=64 << 10) as stand,
        connect(stand.url, ssl=trusted) as client,
    ):
        await client.create("a")
        response = await client.ended("a")
        assert response["status"] == "incomplete"
        assert response["incomplete_details"]["reason"] == "max_output_bytes"


async def test_who_reads_slowly_gets_everything(certificate: Path, trusted: ssl.SSLContext) -> None:
    words = 100

    async def script(exchange: Exchange) -> None:
        await exchange.send(created(), in_progress(), *opened())
        for _ in range(words):
            await exchange.send(delta("渐word" * 2000))
        text = "渐word" * 2000 * words
        await exchange.send(*closed(text), completed(output=[message(text)]))
        await exchange.end()

    async with (
        secure(certificate, script, send_buffer_bytes=BOUND) as stand,
        connect(stand.url, ssl=trusted, max_queue=1) as client,
    ):
        await client.create("a")
        await unread(stand, BOUND)
        response = await client.ended("a")
        assert len(response["output"][0]["content"][0]["text"]) == 5 * 2000 * words


async def test_who_never_reads_holds_up_its_backend_and_is_closed(
    certificate: Path, trusted: ssl.SSLContext
) -> None:
    async with (
        secure(certificate, babble, send_buffer_bytes=BOUND, stall_timeout=10.0) as stand,
        secured(stand.port, trusted, receive_buffer=1 << 17) as client,
    ):
        await client.write(head(WEBSOCKET))
        assert (await client.read()).startswith(b"HTTP/1.1 101 ")
        [socket] = sockets(stand)
        clock = hand_clock(socket)
        body = {"type": "response.create", "stream_id": "a", "model": "m", "input": "hi"}
        await client.write(frame({**body, "store": False}))
        await full(stand)
        most = 0
        for _ in range(200):
            await anyio.lowlevel.checkpoint()
            most = max(most, socket.unsent)
        assert most < BOUND + (600 << 10)
        while not socket.close_sent:
            clock.elapse(1)
        assert clock.time() >= 10
        assert socket.code == 1013
        clock.elapse(6)
        await disconnected(stand)


async def test_a_stop_lets_responses_finish_and_waits_for_no_handshake(
    certificate: Path, trusted: ssl.SSLContext
) -> None:
    async with secure(certificate, handshake_timeout=600.0) as stand, AsyncExitStack() as stack:
        for data in (b"", b"\x16", TlsClient(None, trusted).hello()):  # type: ignore[arg-type]
            client = await stack.enter_async_context(tcp(stand.port))
            await client.write(data)
        talking = await stack.enter_async_context(connect(stand.url, ssl=trusted))
        idle = await stack.enter_async_context(connect(stand.url, ssl=trusted))
        lane = await stand.lane(talking, "a")
        await stop(stand)
        assert await idle.closed() == RESTART
        await lane.says("in time")
        await lane.ends()
        assert await talking.closed() == RESTART


async def shown(stand: WireStand) -> int:
    """The serial number of the certificate that a new connection sees."""
    blind = ssl.create_default_context()
    blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
    async with secured(stand.port, blind) as client:
        der = client.tls.getpeercert(binary_form=True)
        assert der is not None
        return x509.load_der_x509_certificate(der).serial_number


def of(pem: bytes) -> int:
    return x509.load_pem_x509_certificate(pem).serial_number


async def test_a_new_certificate_is_for_new_connections(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "multilane")
    old, new, last = (key_and_certificate() for _ in range(3))
    path = tmp_path / "both.pem"
    path.write_bytes(old)
    trusted = ssl.create_default_context(cafile=path)
    async with secure(path) as stand, connect(stand.url, ssl=trusted) as client:
        assert await shown(stand) == of(old)
        path.write_bytes(new)
        stand.server.gateway.reload()
        assert await shown(stand) == of(new)
        for broken in (b"", new[:-100], old[: old.index(b"-----BEGIN CERT")] + new):
            caplog.clear()
            path.write_bytes(broken)
            stand.server.gateway.reload()
            assert "certificate not reloaded, the one before stays in force: --tls-" in caplog.text
            assert await shown(stand) == of(new)
        # A change is found without being told, as well.
        (tmp_path / "next").write_bytes(last)
        os.replace(tmp_path / "next", path)
        with anyio.fail_after(HANG):
            while await shown(stand) != of(last):  # noqa: ASYNC110 - a file, and no event
                await anyio.sleep(0.05)
        assert "TLS by the certificate in" in caplog.text
        lane = await stand.lane(client, "a")
        await lane.ends()


async def test_health_is_told_by_tls(certificate: Path, trusted: ssl.SSLContext) -> None:
    async with secure(certificate) as stand:
        base = stand.url.removesuffix("/v1")
        async with requested(base, "GET", "/health", None, tls=trusted) as answer:
            assert json.loads(await answer.body())["status"] == "ok"
