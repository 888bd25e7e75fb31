"""The figures of D2: whole HTTP clients that read server-sent events from a loopback socket.

`alone`: one event a read; `many a read`: 50. Sending is not measured, everything from the event
loop's next turn to the client's last line of the event is. Rivals that are not installed are named
as missing.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import socket
import time
from typing import TYPE_CHECKING

from bench.measure import Case, main, missing
from bench.pipeline import delta, sse
from gateway.upstream.transport.http.client import HttpClient

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AsyncExitStack

    from lanes.ports import Event

    #: Reads a stream from a URL and path, and reports each event.
    Client = Callable[[str, str, Callable[[int], None]], Awaitable[None]]

TITLE = "D2, a whole client, one event"
_MANY = 50
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


async def _ours(base: str, path: str, seen: Callable[[int], None]) -> None:
    client = HttpClient(base)

    def sink(events: list[Event]) -> None:
        seen(len(events))

    try:
        stream = await client.post(path, b"", {})
        await stream.relay(sink)
    finally:
        await client.aclose()


async def _aiohttp(base: str, path: str, seen: Callable[[int], None]) -> None:
    library = importlib.import_module("aiohttp")
    async with library.ClientSession() as session, session.post(base + path) as answer:
        async for line in answer.content:
            seen(line.startswith(b"data: "))


def _httpx(package: str) -> Client:
    async def read(base: str, path: str, seen: Callable[[int], None]) -> None:
        library = importlib.import_module(package)
        async with library.AsyncClient() as client, client.stream("POST", base + path) as answer:
            async for line in answer.aiter_lines():
                seen(line.startswith("data: "))

    return read


class _Backend:
    """Accepts one client at a time and sends it events, one burst after the other."""

    def __init__(self, client: Client, burst: int) -> None:
        event = sse(delta())
        self._data = b"%x\r\n%b\r\n" % (len(event), event) * burst
        self._client = client
        self._burst = burst
        self._events = 0

    async def measure(self, count: int) -> float:
        """Send `count` events to a new client; return the CPU microseconds of one (see `Case`)."""
        self._events = spent = 0
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)  # noqa: FBT003
            base = f"http://127.0.0.1:{listener.getsockname()[1]}"
            reading = asyncio.ensure_future(self._client(base, "/", self._seen))
            loop = asyncio.get_running_loop()
            peer, _ = await loop.sock_accept(listener)
            with peer:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await loop.sock_recv(peer, 65536)
                peer.send(_HEAD)
                bursts = max(1, count // self._burst)
                for number in range(1, bursts + 1):
                    spent += await self._send(peer, number * self._burst)
                peer.send(b"0\r\n\r\n")
                await reading
        return spent / 1000 / (bursts * self._burst)

    async def _send(self, peer: socket.socket, events: int) -> int:
        """Send a burst and return the nanoseconds until the client has read `events` in all."""
        peer.send(self._data)
        started = time.thread_time_ns()
        while self._events < events:  # noqa: ASYNC110  (the turns of the loop are measured)
            await asyncio.sleep(0)
        return time.thread_time_ns() - started

    def _seen(self, events: int) -> None:
        self._events += events


async def cases(_: AsyncExitStack) -> list[Case]:
    """Return the rows."""
    clients: dict[str, Client] = {
        "this gateway": _ours,
        "aiohttp": _aiohttp,
        "httpx": _httpx("httpx"),
        "httpx2": _httpx("httpx2"),
    }
    rows: list[Case] = []
    for burst, how in ((1, "alone"), (_MANY, "many a read")):
        for package, client in clients.items():
            name = f"{package}, {how}"
            if client is _ours or importlib.util.find_spec(package) is not None:
                rows.append(Case(name, _Backend(client, burst).measure))
            else:
                rows.append(missing(name, package))
    return rows


if __name__ == "__main__":
    main(TITLE, cases, count=5_000)
