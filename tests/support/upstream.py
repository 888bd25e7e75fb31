"""A scripted backend on a real loopback socket: the test decides when each byte goes out.

    async with upstream() as fake:
        exchange = await fake.next()          # the gateway has asked: exchange.body is its JSON
        await exchange.send(*reply("hello"))  # each argument is one HTTP chunk
        await exchange.end()

Barriers, not sleeps: `await exchange.closed.wait()` is over once the gateway hung up. With a script
nothing is asked of the test: it gets the exchange and returns chunks and pauses, or is a coroutine.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import anyio
from httptools import HttpRequestParser

from tests.support.exchange import Exchange
from tests.support.hang_guard import HANG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from contextlib import AbstractAsyncContextManager

#: bytes are sent as one chunk, a number is a pause in seconds, an event is waited for.
Step = bytes | float | anyio.Event


class ScriptedUpstream:
    """Collects what the gateway asks for, in order of arrival."""

    def __init__(self, script: Callable[[Exchange], Any] | None = None) -> None:
        self.script = script
        self.url = ""
        self.exchanges: list[Exchange] = []
        self.connections = 0
        self.open: set[_Connection] = set()
        self._send, self._receive = anyio.create_memory_object_stream[Exchange](float("inf"))
        self._tasks: anyio.abc.TaskGroup | None = None
        self._server: asyncio.Server | None = None

    def refuse(self) -> None:
        """Take no more connections."""
        assert self._server is not None
        self._server.close()

    async def next(self, timeout: float = HANG) -> Exchange:
        """The next request that was not handed out yet; waits for it."""
        with anyio.fail_after(timeout):
            return await self._receive.receive()

    def arriving(self) -> int:
        """Bytes of requests that are not whole yet."""
        return sum(len(one.current.raw) for one in self.open if one.current is not None)

    def arrived(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)
        if self.script is None:
            self._send.send_nowait(exchange)
        elif self._tasks is not None:
            self._tasks.start_soon(self._play, exchange, self.script)

    async def _play(self, exchange: Exchange, script: Callable[[Exchange], Any]) -> None:
        try:
            steps = script(exchange)
            if asyncio.iscoroutine(steps):
                await steps
                return
            for step in cast("Iterable[Step]", steps):
                await _take(exchange, step)
            await exchange.end()
        except ConnectionError:
            pass  # the gateway hung up in mid-script, as tests of cancellation want it to

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[ScriptedUpstream]:
        loop = asyncio.get_running_loop()
        self._server = server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        try:
            async with anyio.create_task_group() as self._tasks:
                yield self
                self._tasks.cancel_scope.cancel()
        finally:
            server.close()
            for exchange in self.exchanges:
                exchange.transport.abort()
            self._send.close()
            self._receive.close()


def upstream(
    script: Callable[[Exchange], Any] | None = None,
) -> AbstractAsyncContextManager[ScriptedUpstream]:
    return ScriptedUpstream(script).serving()


async def _take(exchange: Exchange, step: Step) -> None:
    if isinstance(step, bytes):
        await exchange.send(step)
    elif isinstance(step, anyio.Event):
        await step.wait()
    else:
        await anyio.sleep(step)


class _Connection(asyncio.Protocol):
    """One HTTP/1.1 connection, kept alive; its callbacks are httptools' too."""

    def __init__(self, owner: ScriptedUpstream) -> None:
        self.owner = owner
        self.current: Exchange | None = None
        self.writable = asyncio.Event()
        self.writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.get_extra_info("socket").setsockopt(
            socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
        )
        self.owner.connections += 1
        self.owner.open.add(self)
        self.parser = HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.writable.set()
        self.owner.open.discard(self)
        if self.current is not None:
            self.current.closed.set()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def on_message_begin(self) -> None:
        self.current = Exchange(self.transport, self.writable)

    def on_url(self, url: bytes) -> None:
        assert self.current is not None
        self.current.path += url.decode()

    def on_header(self, name: bytes, value: bytes) -> None:
        assert self.current is not None
        self.current.headers[name.decode().lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        assert self.current is not None
        self.current.raw += body

    def on_message_complete(self) -> None:
        assert self.current is not None
        self.owner.arrived(self.current)
