"""An ASGI application writes a response straight to the transport, at its client's pace."""

from __future__ import annotations

import socket
import weakref
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import anyio
import anyio.lowlevel
import pytest
import uvicorn

from gateway.client.http_protocol import ClientHttp
from gateway.client.paced_writer import WaterMarks
from gateway.client.peers import EXTENSION, Peers, show_key
from tests.support.error_log import expect_no_errors
from tests.support.hang_guard import HANG
from tests.support.raw_answer import head, rest
from tests.support.raw_client import tcp

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Awaitable, Callable

GET = head(["Host: a"], "GET / HTTP/1.1")
PIECE = b"10000\r\n" + b"x" * 65536 + b"\r\n"


class Writer:
    """An application that writes pieces while there is room, and `count` in all."""

    def __init__(self, count: int, stall_timeout: float = 60.0) -> None:
        self.count = count
        self.stall_timeout = stall_timeout
        self.most = 0
        self.filled = anyio.Event()
        self.gone = anyio.Event()
        self.room = anyio.Event()

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[dict[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        client: ClientHttp = scope["extensions"][EXTENSION]
        await receive()
        show_key(scope)
        self.room.set()
        client.bound(WaterMarks(1 << 20, self.stall_timeout, self.pause, self.resume))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(self.count):
            await self.room.wait()
            if client.transport.is_closing():
                break
            client.write(PIECE)
            self.most = max(self.most, client.unsent)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        if client.transport.is_closing():
            self.gone.set()

    def pause(self) -> None:
        self.room = anyio.Event()
        self.filled.set()

    def resume(self) -> None:
        self.room.set()


@asynccontextmanager
async def served(app: Callable[..., Any]) -> AsyncIterator[tuple[int, Peers]]:
    """The application behind the door, and the door's count."""
    peers = Peers(10, 10, [])
    door = cast("type[asyncio.Protocol]", partial(ClientHttp, peers, 4096, 5.0))
    config = uvicorn.Config(
        cast("Any", app), port=0, http=door, ws="none", lifespan="off", log_config=None
    )
    server = uvicorn.Server(config)
    ended = anyio.Event()

    async def serve() -> None:
        try:
            await server._serve()
        finally:
            ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        with anyio.fail_after(HANG):
            while not server.started:  # noqa: ASYNC110 - uvicorn has a flag, no event
                await anyio.sleep(0.001)
        try:
            yield server.servers[0].sockets[0].getsockname()[1], peers
        finally:
            server.should_exit = True
            # Also when the test failed: closing a loop whose server still listens hangs.
            with anyio.move_on_after(15, shield=True):
                await ended.wait()


async def test_what_is_written_is_bounded_and_arrives() -> None:
    app = Writer(100)
    async with served(app) as (port, peers), tcp(port, receive_buffer=1 << 16) as client:
        await client.write(head(["Host: a", "Connection: close"], "GET / HTTP/1.1"))
        with anyio.fail_after(HANG):
            await app.filled.wait()
        assert peers.pending("127.0.0.1") == 0
        top, _, body = (await rest(client)).partition(b"\r\n\r\n")
        assert b"transfer-encoding: chunked" in top
        assert body == PIECE * 100 + b"0\r\n\r\n"
        assert app.most < (1 << 20) + len(PIECE)


async def test_a_client_that_takes_nothing_is_dropped() -> None:
    app = Writer(1000, stall_timeout=0.2)
    async with served(app) as (port, _), tcp(port, receive_buffer=8192) as client:
        await client.write(GET)
        with anyio.fail_after(HANG):
            await app.filled.wait()
            while not app.gone.is_set():
                app.room.set()
                await anyio.sleep(0.01)


async def test_the_next_request_follows() -> None:
    app = Writer(3)
    async with served(app) as (port, _), tcp(port) as client:
        last = head(["Host: a", "Connection: close"], "GET / HTTP/1.1")
        await client.write(GET + GET + last)
        assert (await rest(client)).count(PIECE * 3 + b"0\r\n\r\n") == 3


class Late:
    """An application that has its answer once the client is gone, or refused in mid-request."""

    def __init__(self, *, begins: bool) -> None:
        self.begins = begins
        self.begun = anyio.Event()
        self.callbacks: list[weakref.ref[Any]] = []

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[dict[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        client: ClientHttp = scope["extensions"][EXTENSION]
        if self.begins:
            self._bound(client)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            client.write(PIECE)
        self.begun.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        if not self.begins:
            self._bound(client)
            await send({"type": "http.response.start", "status": 200, "headers": []})
        client.write(PIECE)
        self._bound(client)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        client.cut()

    def _bound(self, client: ClientHttp) -> None:
        def on_full() -> None:
            """Do nothing."""

        self.callbacks.append(weakref.ref(on_full))
        client.bound(WaterMarks(0, 60.0, on_full, on_full))


@pytest.mark.parametrize("begins", [False, True])
@pytest.mark.parametrize("way", ["reset", "half", "refused"])
async def test_an_answer_that_comes_too_late_goes_nowhere(way: str, *, begins: bool) -> None:
    app = Late(begins=begins)
    with expect_no_errors():
        async with served(app) as (port, peers), tcp(port) as client:
            await client.write(head(["Host: a", "Transfer-Encoding: chunked"], "POST / HTTP/1.1"))
            await client.write(b"2\r\nab\r\n")
            with anyio.fail_after(HANG):
                await app.begun.wait()
                if way == "reset":
                    client.abort()
                elif way == "half":
                    client.sock.shutdown(socket.SHUT_WR)
                else:
                    await client.write(b"no chunk")
                    assert b"0\r\n\r\n" not in await rest(client)
                while peers.open:
                    await anyio.lowlevel.checkpoint()
        assert not [one for one in app.callbacks if one() is not None]
