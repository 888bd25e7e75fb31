"""Peers that mean no good, for the soak: each makes one visit to a gateway and leaves."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import struct
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from websockets.frames import Frame, Opcode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Visit = Callable[[int], Awaitable[None]]

_UPGRADE = (
    "GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
    "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
)
#: Heads that no gateway answers with an upgrade.
_BAD_HEADS = (
    f"{_UPGRADE}Cookie: {'x' * 9000}\r\n\r\n",
    _UPGRADE + "".join(f"X-{n}: 1\r\n" for n in range(200)) + "\r\n",
    f"{_UPGRADE}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    _UPGRADE.replace("HTTP/1.1", "HTTP/1.0") + "\r\n",
    _UPGRADE.replace("Version: 13", "Version: 7") + "\r\n",
    "GET /" + "a" * 10_000 + " HTTP/1.1\r\nHost: x\r\n\r\n",
    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
)
_PATHS = ("/health", "/metrics", "/v1/models", "/v1/responses/resp_none", "/v1/steers/none", "/a")
#: Seconds a visit lasts at most.
_LONGEST = 15.0


@asynccontextmanager
async def _connected(
    port: int, *, receive_buffer: int = 0
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect, and leave with a reset: what is unread stays unread."""
    sock = socket.socket()
    if receive_buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.settimeout(0)
    try:
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        reader, writer = await asyncio.open_connection(sock=sock, limit=1 << 16)
    except BaseException:
        sock.close()
        raise
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


@asynccontextmanager
async def _upgraded(
    port: int, *, receive_buffer: int = 0
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with _connected(port, receive_buffer=receive_buffer) as (reader, writer):
        writer.write(f"{_UPGRADE}\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        yield reader, writer


def _frame(message: bytes | dict[str, Any], opcode: Opcode = Opcode.TEXT) -> bytes:
    payload = message if isinstance(message, bytes) else json.dumps(message).encode()
    return Frame(opcode, payload).serialize(mask=True)


def _create(lane: str, **fields: Any) -> bytes:
    body = {"type": "response.create", "stream_id": lane, "model": "rehearse", "input": "hi"}
    return _frame({**body, **fields})


async def _read_on(reader: asyncio.StreamReader, seconds: float) -> None:
    """Read until the gateway closes, for so long at most."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while await reader.read(1 << 16):
                pass


async def garbage(port: int) -> None:
    """Send bytes that are no frames, and frames that hold no events."""
    async with _upgraded(port) as (reader, writer):
        for _ in range(random.randrange(20)):
            writer.write(_frame(random.choice((b"x", b"\xff\xfe", b"{}", b"[" * 5000))))
        writer.write(_frame(os.urandom(100), random.choice((Opcode.BINARY, Opcode.PING))))
        writer.write(os.urandom(random.randrange(1, 5000)))
        await _read_on(reader, 2)


async def half_handshake(port: int) -> None:
    """Send part of a head, then nothing for a while."""
    async with _connected(port) as (reader, writer):
        writer.write(_UPGRADE.encode()[: random.randrange(len(_UPGRADE))])
        await _read_on(reader, random.uniform(0, _LONGEST))


async def bad_head(port: int) -> None:
    """Send a head that is refused."""
    async with _connected(port) as (reader, writer):
        writer.write(random.choice(_BAD_HEADS).encode("latin-1"))
        await _read_on(reader, 2)


async def big_create(port: int) -> None:
    """Send creates of megabytes, half of them with far too many items."""
    async with _upgraded(port) as (reader, writer):
        text = "x" * random.randrange(1 << 20, 6 << 20)
        items = [{"role": "user", "content": "x"}] * random.randrange(1000, 20_000)
        writer.write(_create("big", input=random.choice((text, items)), generate=False))
        await writer.drain()
        await _read_on(reader, 1)


async def no_reader(port: int) -> None:
    """Ask for long answers on several lanes and read none of them."""
    async with _upgraded(port, receive_buffer=1 << 16) as (_, writer):
        for lane in range(4):
            writer.write(_create(str(lane), input="Please answer in 5000 words", store=False))
        await writer.drain()
        await asyncio.sleep(random.uniform(1, 6))


async def slow_reader(port: int) -> None:
    """Read a long answer a little at a time, and leave in the middle."""
    async with _upgraded(port, receive_buffer=1 << 16) as (reader, writer):
        writer.write(_create("slow", input="Please answer in 3000 words"))
        for _ in range(random.randrange(5, 40)):
            if not await reader.read(2000):
                return
            await asyncio.sleep(0.1)


async def leaver(port: int) -> None:
    """Start, fork and steer, and leave at any moment."""
    async with _upgraded(port) as (reader, writer):
        for lane in range(random.randrange(1, 9)):
            writer.write(_create(str(lane), input="Please answer in 200 words"))
        await reader.readuntil(b'"id":"resp_')
        target = "resp_" + (await reader.readuntil(b'"'))[:-1].decode()
        steer = {"type": "response.steer", "previous_response_id": target, "input": "shorter"}
        writer.write(_frame(steer))
        writer.write(_create("fork", previous_response_id=target))
        await _read_on(reader, random.uniform(0, 1))


async def http_reads(port: int) -> None:
    """Ask for all that can be read over HTTP, one request after the other on one connection."""
    async with _connected(port) as (reader, writer):
        for path in random.choices(_PATHS, k=8):
            writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        await _read_on(reader, 0.5)


#: Each kind of peer, and how many of it there are at once.
PEERS: dict[Visit, int] = {
    garbage: 2,
    half_handshake: 8,
    bad_head: 2,
    big_create: 1,
    no_reader: 2,
    slow_reader: 2,
    leaver: 2,
    http_reads: 1,
}
