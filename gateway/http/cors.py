"""The headers that let pages of an allowed origin use the HTTP routes from a browser (CORS)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response

from gateway.client.refusal import UpgradeRefused, error

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from gateway.client.auth import Authenticator

_METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"
#: Seconds for which a browser may remember the answer to a preflight.
_MAX_AGE = "7200"
_HEADER_NAMES = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z, -]{1,2048}")


class Cors:
    """Answers preflights and marks what pages of an allowed origin may read, on every path.

    The keys and the origin of a request itself are checked where it is answered.
    """

    def __init__(self, app: ASGIApp, authenticator: Authenticator) -> None:
        self._app = app
        self._authenticator = authenticator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is not of a browser."""
        headers = dict(scope["headers"]) if scope["type"] == "http" else {}
        origin = headers.get(b"origin")
        if origin is None:
            await self._app(scope, receive, send)
            return
        preflight = scope["method"] == "OPTIONS" and b"access-control-request-method" in headers
        try:
            self._authenticator.check_origin(scope["headers"])
        except UpgradeRefused as refused:
            if preflight:
                body = error(refused.code, refused.message, refused.status)
                await JSONResponse(body, refused.status)(scope, receive, send)
            else:
                await self._app(scope, receive, send)
            return

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"access-control-allow-origin", origin),
                    (b"access-control-expose-headers", b"*"),
                    (b"vary", b"Origin"),
                ]
            await send(message)

        if preflight:
            await _allowance(headers)(scope, receive, marked)
        else:
            await self._app(scope, receive, marked)


def _allowance(headers: dict[bytes, bytes]) -> Response:
    """Return the answer to a preflight: which methods and headers may be used.

    A wildcard would not cover Authorization, so the names come back as they were asked for.
    """
    allowed = {"access-control-allow-methods": _METHODS, "access-control-max-age": _MAX_AGE}
    names = headers.get(b"access-control-request-headers", b"")
    if _HEADER_NAMES.fullmatch(names):
        allowed["access-control-allow-headers"] = names.decode()
    return Response(status_code=204, headers=allowed)
