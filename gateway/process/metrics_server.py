"""The port that `/metrics` may have of its own, in the gateway's event loop."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import ASGIApp

    from gateway.process.listening import Listener

#: Connections at a time: a few Prometheus servers, and whoever looks by hand.
_MAX_CONNECTIONS: Final = 64


class MetricsServer(uvicorn.Server):
    """Serves nothing but the metrics, to everyone who reaches its port; signals are not its own.

    Args:
        metrics: Answers a scrape.
        listener: Its sockets.
    """

    def __init__(self, metrics: ASGIApp, listener: Listener) -> None:
        super().__init__(
            uvicorn.Config(
                Starlette(routes=[Route("/metrics", metrics)]),
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=_MAX_CONNECTIONS,
                timeout_graceful_shutdown=1,
            )
        )
        self._listener = listener
        self._serving: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Serve from now on."""
        serving = self.serve(self._listener.sockets)
        self._serving = asyncio.get_running_loop().create_task(serving)

    async def stop(self) -> None:
        """End, after the answers that are under way."""
        self.should_exit = True
        if self._serving is not None:
            await self._serving

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the gateway's server."""
        yield
