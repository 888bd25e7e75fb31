"""A raw HTTP server of which the test says every byte, on a real socket."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import checkpoint

from tests.support.hang_guard import HANG

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable

    from gateway.upstream.transport.http.client import HttpClient
    from gateway.upstream.transport.http.stream import HttpStream
    from lanes.ports import Event

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def event(number: int) -> bytes:
    return b"event: x\ndata: %d\n\n" % number


def chunk(*numbers: int) -> bytes:
    """These events in one HTTP chunk."""
    data = b"".join(map(event, numbers))
    return b"%x\r\n%s\r\n" % (len(data), data)


def answer(status: int, body: bytes = b"", **headers: str) -> bytes:
    """A whole answer with a length."""
    lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items()]
    head = f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\n{''.join(lines)}\r\n"
    return head.encode() + body


@dataclass
class Request:
    line: str
    headers: dict[str, str]
    body: bytes


class RawHttpPeer:
    """One accepted connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def request(self) -> Request:
        """Read the next request, whole."""
        with anyio.fail_after(HANG):
            head = await self.reader.readuntil(b"\r\n\r\n")
            line, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
            headers = dict(one.split(": ", 1) for one in lines)
            length = int(headers.get("content-length", "0"))
            return Request(line, headers, await self.reader.readexactly(length))

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def gone(self) -> bool:
        """Wait until the client has closed."""
        with anyio.fail_after(HANG):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True

    def close(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        """End with an RST."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


class RawHttpServer:
    def __init__(self) -> None:
        self.port = 0
        self.peers: list[RawHttpPeer] = []
        self._new: asyncio.Queue[RawHttpPeer] = asyncio.Queue()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def accept(self) -> RawHttpPeer:
        """The next connection nobody has asked for yet."""
        with anyio.fail_after(HANG):
            return await self._new.get()

    async def serve(self, *answers: bytes) -> list[Request]:
        """Answer requests one by one, each on the connection it comes on."""
        got: list[Request] = []
        peer = await self.accept()
        for data in answers:
            if peer.reader.at_eof():
                peer = await self.accept()
            got.append(await peer.request())
            peer.send(data)
        return got

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = RawHttpPeer(reader, writer)
        self.peers.append(peer)
        self._new.put_nowait(peer)


@asynccontextmanager
async def running(tls: ssl.SSLContext | None = None) -> AsyncIterator[RawHttpServer]:
    server = RawHttpServer()
    listening = await asyncio.start_server(server.connected, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for peer in server.peers:
            peer.writer.transport.abort()
        await asyncio.sleep(0)  # the transports close in the next turn of the loop


async def asked(
    server: RawHttpServer, client: HttpClient
) -> tuple[asyncio.Task[HttpStream], RawHttpPeer]:
    """A request that has come, and where to answer it."""
    posting = asyncio.create_task(post(client))
    peer = await server.accept()
    await peer.request()
    return posting, peer


async def opened(server: RawHttpServer, client: HttpClient) -> tuple[HttpStream, RawHttpPeer]:
    """A stream whose head has come, and its other end."""
    posting, peer = await asked(server, client)
    peer.send(HEAD)
    return await posting, peer


async def post(client: HttpClient) -> HttpStream:
    with anyio.fail_after(HANG):
        return await client.post("/responses", b"{}", {})


class Sink:
    """What `relay` delivered; `have` waits for so many events."""

    def __init__(self) -> None:
        self.reads: list[list[Event]] = []
        self._changed = asyncio.Event()

    def __call__(self, events: list[Event]) -> None:
        self.reads.append(events)
        self._changed.set()

    @property
    def numbers(self) -> list[int]:
        return [int(data) for events in self.reads for _, data in events]

    async def have(self, count: int) -> None:
        with anyio.fail_after(HANG):
            while len(self.numbers) < count:
                self._changed.clear()
                await self._changed.wait()


async def soon(done: Awaitable[None]) -> None:
    with anyio.fail_after(HANG):
        await done


async def until(true: Callable[[], bool]) -> None:
    """Let the loop turn until `true`; for what nobody announces."""
    with anyio.fail_after(HANG):
        while not true():
            await checkpoint()
