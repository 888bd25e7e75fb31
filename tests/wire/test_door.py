"""What a peer may do before it has shown a key: so many sockets, so many bytes, so long."""

from __future__ import annotations

import json
import socket
import struct
import sys
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from gateway.client import peers
from gateway.process.listening import BACKLOG
from tests.support.client import connect
from tests.support.hang_guard import HANG
from tests.support.raw_answer import WEBSOCKET, head, last_answer, one_answer, rest
from tests.support.raw_client import Raw, raw, tcp
from tests.support.serve_process import process
from tests.support.wire_stand import disconnected, standing

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.wire_stand import WireStand

HEALTH = head(["Host: a"], "GET /health HTTP/1.1")


async def opened(stand: WireStand, stack: AsyncExitStack, data: bytes = b"") -> Raw:
    """One more connection, which the gateway has accepted and which has sent these bytes."""
    before = stand.server.gateway.peers.open
    client = await stack.enter_async_context(tcp(stand.port))
    await client.write(data)
    with anyio.fail_after(HANG):
        while stand.server.gateway.peers.open == before:  # noqa: ASYNC110 - there is no event
            await anyio.sleep(0.001)
    return client


async def refused(client: Raw, status: int, code: str) -> None:
    answer = await last_answer(client)
    assert (answer.status, answer.error["code"]) == (status, code)


async def test_sockets_are_counted_from_accept_on() -> None:
    async with standing() as stand, AsyncExitStack() as stack:
        await opened(stand, stack)
        await opened(stand, stack, b"GET /health HTT")
        await stack.enter_async_context(raw(stand.port))
        client = await opened(stand, stack, HEALTH)
        said = json.loads((await one_answer(client)).body)
        assert (said["connections"], said["sockets"], said["refused"]) == (1, 4, 0)
        await stack.aclose()
        await disconnected(stand, 10)
        assert stand.server.gateway.peers.open == 0
        assert stand.server.gateway.peers.pending("127.0.0.1") == 0


async def test_sockets_without_a_key_take_room_like_others() -> None:
    async with standing(max_connections=2) as stand, AsyncExitStack() as stack:
        for _ in range(2):
            await opened(stand, stack, b"GET ")
        client = await opened(stand, stack, head(WEBSOCKET))
        await refused(client, 429, "too_many_connections")
        # There is room to say so, and for those who watch.
        client = await opened(stand, stack, HEALTH)
        assert (await one_answer(client)).status == 200


async def test_beyond_all_room_not_even_a_head_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "HEADROOM", 1)
    async with standing(max_connections=1) as stand, AsyncExitStack() as stack:
        for _ in range(2):
            await opened(stand, stack)
        client = await opened(stand, stack)
        await refused(client, 429, "too_many_connections")


async def test_a_peer_with_too_many_sockets_is_not_waited_for() -> None:
    async with standing(max_pending_per_address=2) as stand, AsyncExitStack() as stack:
        waiting = [await opened(stand, stack, b"GET ") for _ in range(2)]
        for data in (b"GET /hea", b"", head(["Host: a", "Content-Length: 9"], "POST / HTTP/1.1")):
            await refused(await opened(stand, stack, data), 429, "too_many_connections")
        # Whoever needs no patience is served, and those that came first may go on.
        client = await opened(stand, stack, HEALTH)
        assert (await one_answer(client)).status == 200
        await stack.enter_async_context(raw(stand.port))
        await waiting[0].write(HEALTH[4:])
        assert (await one_answer(waiting[0])).status == 200


async def test_a_key_ends_the_count_of_an_address() -> None:
    settings: dict[str, Any] = {"max_pending_per_address": 1, "api_keys": ("k",)}
    async with standing(**settings) as stand, AsyncExitStack() as stack:
        for _ in range(3):
            key = {"Authorization": "Bearer k"}
            await stack.enter_async_context(connect(stand.url, headers=key))
        assert stand.server.gateway.peers.pending("127.0.0.1") == 0
        for _ in range(2):
            await refused(await opened(stand, stack, head(WEBSOCKET)), 401, "missing_api_key")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /v1/responses HTTP/1.1\r\nHost: a\r\n", 408),
        (b"G", 408),
        (b"\r\n", None),
        (b"", None),
        (head(["Host: a", "Content-Length: 9"], "POST /v1/responses HTTP/1.1"), 408),
        (head(["Host: a", "Content-Length: 9"], "POST /nowhere HTTP/1.1"), 404),
    ],
    ids=[
        "half a head",
        "one byte",
        "an empty line",
        "nothing",
        "a body that is read",
        "one that is not",
    ],
)
async def test_a_request_has_its_time(data: bytes, status: int | None) -> None:
    async with standing(handshake_timeout=0.3) as stand, AsyncExitStack() as stack:
        client = await opened(stand, stack, data)
        got = await rest(client)
        if status is None:
            assert got == b""
        else:
            assert got.startswith(b"HTTP/1.1 %d " % status)
        await client.write(b"x")
        client.sock.close()
        await disconnected(stand, 10)


async def test_a_slow_head_has_no_more_time_than_a_silent_one() -> None:
    async with standing(handshake_timeout=0.3) as stand, AsyncExitStack() as stack:
        client = await opened(stand, stack, b"GET /v1/responses HTTP/1.1\r\n")

        async def drip() -> None:
            while True:
                await client.write(b"a: b\r\n")
                await anyio.sleep(0.01)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drip)
            await refused(client, 408, "request_timeout")
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["Content-Length: 9999999"], 401),
        (["Transfer-Encoding: chunked"], 401),
        (
            [
                "Content-Length: 9999999999",
                "Content-Type: application/json",
                "Authorization: Bearer sk-right",
            ],
            413,
        ),
    ],
)
async def test_a_body_that_is_not_needed_has_no_more_time_than_a_head(
    lines: list[str], status: int
) -> None:
    """However much of it comes: it is read only so that the answer arrives."""
    async with standing(handshake_timeout=0.5, api_keys=("sk-right",)) as stand:
        async with tcp(stand.port) as client, anyio.create_task_group() as tasks:
            await client.write(head(["Host: a", *lines], "POST /v1/responses HTTP/1.1"))
            assert (await one_answer(client)).status == status

            async def drip() -> None:
                with suppress(ConnectionError):
                    while True:
                        await client.write(b"2000\r\n" + b"a" * 8192 + b"\r\n")
                        await anyio.sleep(0.01)

            tasks.start_soon(drip)
            assert await rest(client) == b""
            tasks.cancel_scope.cancel()
        await disconnected(stand)
        assert stand.server.gateway.peers.pending("127.0.0.1") == 0


async def test_the_next_request_has_its_time_too() -> None:
    async with standing(handshake_timeout=0.3) as stand, AsyncExitStack() as stack:
        client = await opened(stand, stack, HEALTH)
        assert (await one_answer(client)).status == 200
        await client.write(HEALTH[:9])
        await refused(client, 408, "request_timeout")


async def test_an_endless_head_ends_at_its_limit() -> None:
    async with standing(max_head_bytes=4096) as stand, AsyncExitStack() as stack:
        client = await opened(stand, stack, b"GET /v1/responses HTTP/1.1\r\nX: ")
        for _ in range(5):
            await client.write(b"x" * 1024)
        await refused(client, 431, "request_head_too_large")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_endless_heads_take_no_memory_and_stall_nobody(tmp_path: Path) -> None:
    async with process(tmp_path) as own, AsyncExitStack() as stack:
        before = own.resident
        for _ in range(4):
            client = await stack.enter_async_context(tcp(own.port))
            await client.write(b"GET /v1/responses HTTP/1.1\r\nX: ")
            for _ in range(300):
                await client.write(b"x" * 65536)
        client = await stack.enter_async_context(tcp(own.port))
        await client.write(HEALTH)
        assert (await one_answer(client)).status == 200
        assert own.resident - before < 20 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells it through TCP_INFO")
async def test_the_backlog_is_set() -> None:
    async with standing() as stand:
        [server] = stand.server.servers
        [listener] = server.sockets
        info = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 32)
        with open("/proc/sys/net/core/somaxconn", encoding="ascii") as file:  # noqa: ASYNC230
            most = int(file.read())
        assert struct.unpack("8x6I", info)[5] == min(BACKLOG, most)
        assert BACKLOG >= 1024
