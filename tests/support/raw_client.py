"""A WebSocket client by hand: reads only when it is told to, answers no ping by itself, and takes
nothing from the gateway that RFC 6455 does not allow."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio

from tests.support.hang_guard import HANG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
HELLO = (
    "GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
    "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
)


class Frame(NamedTuple):
    opcode: int
    payload: bytes

    @property
    def event(self) -> dict[str, Any]:
        assert self.opcode == TEXT, self
        event: dict[str, Any] = json.loads(self.payload)
        return event

    @property
    def code(self) -> tuple[int, str]:
        assert self.opcode == CLOSE, self
        return int.from_bytes(self.payload[:2], "big"), self.payload[2:].decode()


class Raw:
    """`closed` is the close frame once there was one: after it only the end may come."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.closed: Frame | None = None
        self._loop = asyncio.get_running_loop()
        self._got = bytearray()

    async def write(self, data: bytes) -> None:
        """Bytes as they are."""
        await self._loop.sock_sendall(self.sock, data)

    async def read(self, size: int) -> bytes:
        """So many bytes at most, none at the end of the connection."""
        with anyio.fail_after(HANG):
            return await self._loop.sock_recv(self.sock, size)

    async def send(self, payload: bytes | str | dict[str, Any] = b"", opcode: int = TEXT) -> None:
        """One frame that is a whole message."""
        await self.write(frame(payload, opcode))

    async def create(self, lane: str, **extra: Any) -> None:
        body = {"type": "response.create", "stream_id": lane, "model": "m", "input": "hi"}
        await self.send({**body, "store": False, **extra})

    async def frame(self, timeout: float = HANG) -> Frame | None:
        """The next frame, None at the end of the connection; a reset raises ConnectionError."""
        with anyio.fail_after(timeout):
            while (found := self._take()) is None:
                data = await self._loop.sock_recv(self.sock, 1 << 18)
                if not data:
                    assert not self._got, "the connection ends within a frame"
                    return None
                self._got += data
        assert self.closed is None, f"{found} after the close frame"
        if found.opcode == CLOSE:
            self.closed = found
        return found

    async def until(self, opcode: int, timeout: float = HANG) -> list[Frame]:
        """All frames up to the first of this kind."""
        seen: list[Frame] = []
        with anyio.fail_after(timeout):
            while not seen or seen[-1].opcode != opcode:
                found = await self.frame(timeout)
                assert found is not None, f"the connection ended after {seen[-1:]}"
                seen.append(found)
        return seen

    async def end(self, timeout: float = HANG) -> Frame | None:
        """Read on to the end of the connection; the close frame if there was one."""
        while await self.frame(timeout) is not None:
            pass
        return self.closed

    def abort(self) -> None:
        """Leave with a TCP reset."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def _take(self) -> Frame | None:
        got = self._got
        if len(got) < 2:
            return None
        assert got[0] & 0x80, "the gateway fragments nothing"
        assert not got[0] & 0x70, "reserved bits"
        assert not got[1] & 0x80, "a server masks nothing"
        opcode, size, at = got[0] & 0x0F, got[1], 2
        assert opcode in (TEXT, CLOSE, PING, PONG)
        assert opcode == TEXT or size < 126
        if size > 125:
            wide = 2 if size == 126 else 8
            at += wide
            size = int.from_bytes(got[2:at], "big")
        if len(got) < at + size:
            return None
        payload = bytes(got[at : at + size])
        del got[: at + size]
        return Frame(opcode, payload)


def frame(
    payload: bytes | str | dict[str, Any] = b"", opcode: int = TEXT, *, fin: bool = True
) -> bytes:
    """A client's frame, masked as it has to be."""
    text = json.dumps(payload) if isinstance(payload, dict) else payload
    data = text.encode() if isinstance(text, str) else text
    size = len(data)
    head = bytes([opcode | (0x80 if fin else 0)])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 65536:
        head += b"\xfe" + size.to_bytes(2, "big")
    else:
        head += b"\xff" + size.to_bytes(8, "big")
    key = os.urandom(4)
    pad = key * (size // 4 + 1)
    mixed = int.from_bytes(data, "big") ^ int.from_bytes(pad[:size], "big")
    return head + key + mixed.to_bytes(size, "big")


@asynccontextmanager
async def raw(port: int, *, receive_buffer: int | None = None) -> AsyncIterator[Raw]:
    """Open a WebSocket; with a small `receive_buffer` the gateway soon feels that nobody reads."""
    async with tcp(port, receive_buffer=receive_buffer) as client:
        await client.write(f"{HELLO}\r\n".encode())
        head = await _head(client)
        assert head.startswith(b"HTTP/1.1 101 "), head
        yield client


@asynccontextmanager
async def tcp(port: int, *, receive_buffer: int | None = None) -> AsyncIterator[Raw]:
    """Nothing but the connection."""
    with socket.socket() as sock:
        sock.setblocking(False)
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        yield Raw(sock)


async def _head(client: Raw) -> bytes:
    head = b""
    with anyio.fail_after(HANG):
        while not head.endswith(b"\r\n\r\n"):
            byte = await asyncio.get_running_loop().sock_recv(client.sock, 1)
            assert byte, head
            head += byte
    return head
