"""`GET /metrics` on the gateway's own port, for Prometheus (docs/operations.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse
from starlette.routing import Route

from gateway.client.peers import show_key
from gateway.client.refusal import UpgradeRefused, error

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp

    from gateway.client.auth import Authenticator
    from gateway.config.settings import Settings


class Scraping:
    """Shows the metrics, by default to those with a key; nowhere here if they have their own port.

    Args:
        authenticator: Checks the keys.
        metrics: Answers a scrape.
        settings: The gateway's.
    """

    def __init__(self, authenticator: Authenticator, metrics: ASGIApp, settings: Settings) -> None:
        self._authenticator = authenticator
        self._metrics = metrics
        self._open = settings.metrics_access == "open"
        shown = settings.metrics_access != "off" and settings.metrics_port is None
        self.routes = [Route("/metrics", self._answer)] if shown else []

    async def _answer(self, request: Request) -> ASGIApp:
        if not self._open:
            try:
                # By a key alone: a client secret is in the hands of anybody who sees a page.
                self._authenticator.admit(request.scope["headers"])
            except UpgradeRefused as refused:
                body = error(refused.code, refused.message, refused.status)
                return JSONResponse(body, refused.status, refused.headers)
            show_key(request.scope)
        return self._metrics
