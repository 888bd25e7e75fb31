"""One request to the fake upstream, and the hands that write its answer."""

from __future__ import annotations

import json
import socket
import struct
from typing import TYPE_CHECKING, Any

import anyio

from tests.support.hang_guard import HANG

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

_SSE = {"content-type": "text/event-stream"}


class Exchange:
    """`path`, `headers` (lower case) and `body` came in; the methods send what goes out."""

    def __init__(self, transport: asyncio.Transport, writable: asyncio.Event) -> None:
        self.transport = transport
        self.path = ""
        self.headers: dict[str, str] = {}
        self.raw = bytearray()
        self.closed = anyio.Event()
        self.ended = False
        self._writable = writable
        self._began = False

    @property
    def body(self) -> Any:
        """The request's JSON."""
        return json.loads(self.raw)

    @property
    def input(self) -> list[Any]:
        """The request's input items; a plain string is one user message."""
        given = self.body["input"]
        return [{"role": "user", "content": given}] if isinstance(given, str) else list(given)

    async def head(self, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Open a chunked answer; `send` does it with 200 and text/event-stream when needed."""
        self._began = True
        lines = dict(_SSE if headers is None else headers) | {"transfer-encoding": "chunked"}
        await self.write(_head(status, lines))

    async def send(self, *chunks: bytes) -> None:
        """Write each argument as one HTTP chunk; waits while the gateway reads nothing."""
        if not self._began:
            await self.head()
        for chunk in chunks:
            if chunk:
                await self.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))

    async def end(self) -> None:
        """Finish the body properly; the connection stays open for the next request."""
        if not self._began:
            await self.head()
        self.ended = True
        await self.write(b"0\r\n\r\n")

    async def reply(
        self, status: int, body: bytes | dict[str, Any], headers: Mapping[str, str] | None = None
    ) -> None:
        """A whole answer at once, as backends refuse a request; a dict is sent as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = {"content-type": "application/json", "content-length": str(len(data))}
        self._began = self.ended = True
        await self.write(_head(status, lines | dict(headers or {})) + data)

    async def write(self, data: bytes) -> None:
        """Bytes as they are, below HTTP."""
        await self._writable.wait()
        if self.closed.is_set() or self.transport.is_closing():
            raise ConnectionResetError("the gateway closed this exchange")
        self.transport.write(data)

    async def hang(self, timeout: float = HANG) -> None:
        """Say nothing more until the gateway hangs up."""
        with anyio.fail_after(timeout):
            await self.closed.wait()

    def cut(self) -> None:
        """Close the connection in an orderly way, but in the middle of the body."""
        self.transport.close()

    def reset(self) -> None:
        """Break the connection with a TCP reset."""
        raw: socket.socket = self.transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [
        f"HTTP/1.1 {status} Scripted",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def hung_up(*exchanges: Exchange, within: float = HANG) -> None:
    """Wait until the gateway has closed all of these, at most so many seconds."""
    with anyio.fail_after(within):
        for exchange in exchanges:
            await exchange.closed.wait()
