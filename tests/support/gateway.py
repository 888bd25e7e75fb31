"""The gateway itself, run in this process on a free loopback port.

async with running(Settings(upstream=fake.url, dialect="openai")) as base_url:
    async with connect(base_url) as client: ...
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import uvicorn.server

from gateway.app import Gateway
from gateway.process.listening import listen
from gateway.process.server import GatewayServer
from tests.support.hang_guard import HANG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gateway.config.settings import Settings


class _ShortPauses:
    """asyncio for uvicorn's server, which looks ten times a second whether it is over.

    Thousands of tests end one, and each would wait a tenth of a second for that, and another for
    its last connection.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(delay: float) -> None:
        await asyncio.sleep(delay / 20)


vars(uvicorn.server)["asyncio"] = _ShortPauses()


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[str]:
    """Serve until the block ends; yields the base URL a client of the Responses API is given."""
    async with serving(settings) as (_, base_url):
        yield base_url


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[tuple[GatewayServer, str]]:
    """The same, for tests that tell the server itself what to do."""
    if settings.redis_url == "embedded":
        settings = settings.model_copy(
            update={"redis_url": "memory"}
        )  # its engine is for processes
    metrics = None
    if settings.metrics_port is not None:
        metrics = listen(settings.metrics_host, settings.metrics_port)
    server = GatewayServer(Gateway(settings), metrics=metrics)
    ended = anyio.Event()

    async def serve(listener: socket.socket) -> None:
        try:
            await server.serve([listener])
        finally:
            ended.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve, listener)
            with anyio.fail_after(HANG):
                while not server.started:  # noqa: ASYNC110 - uvicorn has a flag, no event
                    await anyio.sleep(0.001)
            try:
                scheme = "http" if settings.tls_cert is None else "https"
                yield server, f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/v1"
            finally:
                server.should_exit = True
                # Also when the test failed: closing a loop whose server still listens hangs.
                with anyio.move_on_after(HANG, shield=True):
                    await ended.wait()
                if metrics is not None:
                    metrics.close()
