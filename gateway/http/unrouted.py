"""Answers to requests that no route takes, or on which one failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse
from starlette.routing import Match, Route

from gateway.client.refusal import error
from gateway.http.errors import refusal
from lanes.errors import own_fault

if TYPE_CHECKING:
    from starlette.requests import Request


async def upgrade_required(_request: Request) -> JSONResponse:
    """Say that a GET opens a WebSocket here."""
    message = "GET opens a WebSocket here, with wss:// or ws://; a single create is a POST."
    body = error("upgrade_required", message, 426)
    return JSONResponse(body, 426, {"Upgrade": "websocket", "Connection": "Upgrade"})


async def not_found(request: Request, _error_raised: Exception) -> JSONResponse:
    """Say that there is nothing at a path."""
    return missing(f"{request.method} {request.url.path}")


async def not_allowed(request: Request, _error_raised: Exception) -> JSONResponse:
    """Name the methods of all routes of this path: each route has its own."""
    scope = {"type": "http", "path": request.url.path}
    methods = {
        method
        for route in request.app.routes
        if isinstance(route, Route) and route.matches({**scope, "method": ""})[0] is Match.PARTIAL
        for method in route.methods or ()
    }
    allow = ", ".join(sorted(methods))
    message = f"{request.method} is not allowed here; allowed: {allow}."
    return JSONResponse(error("method_not_allowed", message, 405), 405, {"Allow": allow})


async def broken(_request: Request, _error_raised: Exception) -> JSONResponse:
    """Say that the gateway itself failed."""
    return refusal(own_fault("The gateway failed on this request."))


def missing(what: str) -> JSONResponse:
    """Return the 404 of what is not there."""
    message = f"There is no {what} here; the gateway's endpoint is /v1/responses."
    return JSONResponse(error("not_found", message, 404), 404)
