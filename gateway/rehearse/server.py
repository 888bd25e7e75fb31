"""HTTP and SSE around the script."""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route

from gateway.rehearse.errors import Refused
from gateway.rehearse.stage import Stage, json

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.responses import Response

NAME = "multilane-rehearse"
MODEL = "rehearse"

_log = logging.getLogger("multilane.rehearse")


def build(rate: float) -> Starlette:
    """The application."""
    stage = Stage(rate)

    async def models(_: Request) -> Response:
        model = {"id": MODEL, "object": "model", "created": 0, "owned_by": NAME}
        return json({"object": "list", "data": [model]})

    async def health(_: Request) -> Response:
        return json({"status": "ok"})

    async def stats(_: Request) -> Response:
        names = ("requests", "open", "cancelled")
        return json({name: getattr(stage, name) for name in names})

    async def unknown(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        message = f"Invalid URL ({request.method} {request.url.path})"
        return json(Refused(message, status=status).body, status)

    routes = [
        Route("/{prefix:path}v1/responses", stage, methods=["POST"]),
        Route("/{prefix:path}v1/models", models),
        Route("/health", health),
        Route("/stats", stats),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: unknown})


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        host, port = _address(self.servers[0].sockets)
        _log.info(
            "%s on %s:%d: a scripted backend for trying and testing, no model", NAME, host, port
        )
        sys.stdout.write(f"ready http://{host}:{port}/v1\n")
        sys.stdout.flush()


def _address(sockets: Sequence[Any]) -> tuple[str, int]:
    host, port = sockets[0].getsockname()[:2]
    return (f"[{host}]" if ":" in host else host), port


def serve(host: str, port: int, rate: float) -> None:
    """Serve until a signal."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    # A cut asked for is no error of the server.
    logging.getLogger("uvicorn.error").addFilter(
        lambda record: "without completing response" not in record.getMessage()
    )
    config = uvicorn.Config(
        build(rate),
        host=host,
        port=port,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        headers=[("server", NAME)],
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
    )
    with contextlib.suppress(KeyboardInterrupt):
        _Server(config).run()
