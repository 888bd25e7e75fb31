"""The gateway itself, run in this process on a free loopback port.

async with running(Settings(upstream=fake.url)) as base_url:
    async with connect(base_url) as client: ...
"""

from __future__ import annotations

import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from gateway.server import make_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gateway.settings import Settings


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[str]:
    """Serve until the block ends; yields the base URL a client of the Responses API is given."""
    server = make_server(settings)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            with anyio.fail_after(10):
                while not server.started:  # noqa: ASYNC110 - uvicorn has a flag, no event
                    await anyio.sleep(0.001)
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
            finally:
                server.should_exit = True
