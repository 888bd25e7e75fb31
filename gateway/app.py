"""Composition root: builds the parts of a gateway, connects them, and starts and stops them."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import anyio
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route, WebSocketRoute

from gateway.census import Census
from gateway.client.admission import Admission
from gateway.client.auth import Authenticator, upstream_headers
from gateway.client.certificate import Certificate
from gateway.client.peers import EXTENSION, Peers
from gateway.config.configured_limits import tenant_defaults
from gateway.config.configured_upstreams import default_model, upstreams
from gateway.endpoint import SocketEndpoint, host_of
from gateway.http.answers import Wires
from gateway.http.background import BackgroundResponses
from gateway.http.client_secrets import ClientSecretRequests
from gateway.http.compact import Compactions
from gateway.http.conversations import ConversationRequests
from gateway.http.cors import Cors
from gateway.http.engine import Engine
from gateway.http.passthrough import Passthrough
from gateway.http.probes import Probes
from gateway.http.responses import ResponseCreation
from gateway.http.routes import HttpRoutes
from gateway.http.running import RunningResponses
from gateway.http.scraping import Scraping
from gateway.http.stored import StoredResponses
from gateway.http.token_counts import TokenCounts
from gateway.http.unrouted import broken, missing, not_allowed, not_found, upgrade_required
from gateway.keys.client_secrets import ClientSecrets
from gateway.keys.watch import KeysWatch
from gateway.limits.tenants import TenantLimits
from gateway.persistence.stores import Stores
from gateway.telemetry.access_log import AccessLog
from gateway.telemetry.metrics import Metrics
from gateway.upstream.routing.router import Router
from lanes.worker import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.types import Scope
    from starlette.websockets import WebSocket

    from gateway.client.auth import Headers
    from gateway.config.settings import Settings
    from gateway.http.answers import Wire
    from gateway.limits.limits import Limits
    from gateway.telemetry.tracing import Tracing

log = logging.getLogger("multilane")


class SupervisedEngine(Protocol):
    """The bundled Valkey as the gateway sees it: something to keep running."""

    async def supervise(self) -> NoReturn:
        """Restart the engine whenever it dies, until cancelled."""
        ...


class Gateway:
    """All connections of one process, and the upstreams and stores behind them.

    `engine` is the bundled Valkey, if it is the store.
    """

    def __init__(self, settings: Settings, engine: SupervisedEngine | None = None) -> None:
        self.settings = settings
        self._engine = engine
        self._read_again: list[KeysWatch | Certificate] = []
        self._authenticator = Authenticator(settings.api_keys, settings.allow_origin)
        if not self._authenticator.ring.open or settings.keys_file is not None:
            self._read_again.append(KeysWatch(settings.keys_file, self._authenticator.ring))
        self.certificate: Certificate | None = None
        if settings.tls_cert is not None:
            self.certificate = Certificate(settings.tls_cert, settings.tls_key)
            self._read_again.append(self.certificate)
        self._access = AccessLog(settings.access_log)
        self._stores = Stores(settings, self._authenticator.ring.homes)
        secrets = ClientSecrets(self._stores.seals, self._authenticator.ring)
        admission = Admission(self._authenticator, secrets)
        configured = upstreams(settings)
        names = (one.name for one in configured)
        self.metrics = Metrics(names, self._stores.clerk.steers, self._stores.counters)
        self._upstreams = Router(configured, self.metrics.responses.failed)
        self._running = RunningResponses()
        self.peers = Peers(
            settings.max_connections,
            settings.max_pending_per_address,
            settings.trusted_proxy,
            self._refused,
        )
        running = self.peers, self._running, self._stores, self._upstreams
        self.census = Census(*running, self.metrics)
        self._limits = TenantLimits(
            self._stores.limits,
            self._stores.owner,
            self._limits_of,
            lets_in=settings.limits_without_store == "open",
        )
        self._authenticator.ring.changed = self._limits.renew
        self._tracing = _tracing() if settings.tracing else None
        make = Worker if self._tracing is None else self._tracing.worker
        self._sockets = SocketEndpoint(
            admission,
            self._limits,
            self.peers,
            self.census,
            self._upstreams,
            self._stores,
            settings,
            self._relayed,
            self._access,
            self.metrics,
            self._refused,
            make,
        )
        wires = Wires(
            _connection,
            settings.heartbeat_interval,
            settings.send_buffer_bytes,
            settings.stall_timeout,
            self.metrics.http,
        )
        background = BackgroundResponses(self._stores, self._running)
        stored = StoredResponses(self._stores, background, wires)
        workers = Engine(
            self._upstreams, self._stores, settings, self._access, self.metrics, self._limits, make
        )
        creation = ResponseCreation(workers, self._running, wires, self._relayed, stored)
        compactions = Compactions(workers, self._running, wires, self._relayed)
        counts = TokenCounts(
            self._upstreams, self._stores.archive, self._running, wires, self._relayed, settings
        )
        conversations = ConversationRequests(self._stores.archive, settings)
        making = ClientSecretRequests(secrets, self._upstreams, self._relayed, settings)
        passed = Passthrough(
            self._upstreams, self._running, wires, self._relayed, settings, self._limits
        )
        routes = HttpRoutes(
            admission,
            self._stores,
            self._models,
            creation,
            stored,
            compactions,
            counts,
            conversations,
            making,
            passed,
        )
        probes = Probes(
            admission,
            self._stores,
            self._upstreams,
            lambda: self.census.draining,
            self.census.counts,
        )
        self.app = Starlette(
            routes=[
                WebSocketRoute("/v1/responses", self._sockets),
                WebSocketRoute("/{path:path}", self._nowhere),
                *routes.routes,
                Route("/v1/responses", upgrade_required, methods=["GET"]),
                *probes.routes,
                *Scraping(self._authenticator, self.metrics, settings).routes,
            ],
            middleware=[Middleware(Cors, self._authenticator)],
            exception_handlers={404: not_found, 405: not_allowed, Exception: broken},
            lifespan=self._lifespan,
        )
        self.app.router.redirect_slashes = False  # a path means what it says

    def reload(self) -> None:
        """Read again what may change while the gateway runs: the keys file, the certificate."""
        for one in self._read_again:
            one.reload()

    async def drain(self, given_up: Callable[[], bool]) -> None:
        """Start nothing more and wait for running responses, at most `drain_timeout` seconds.

        Meanwhile upgrades get 503. Ten times a second `given_up` decides whether to stop waiting.
        """
        self.census.draining = True
        timeout = self.settings.drain_timeout
        if open := self.census.open():
            log.info("draining %s, %g s at most", open, timeout)
        connections = self.census.connections
        for connection in tuple(connections):
            connection.drain(timeout)
        self._running.drain(timeout)
        # Polled, because a signal handler cannot wake an event.
        while (connections or self._running) and not given_up():  # noqa: ASYNC110
            await anyio.sleep(0.1)
        if left := self.census.open():
            log.info("not waiting for %s", left)
        elif open:
            log.info("drained")

    def _refused(self, host: str | None, status: int, code: str) -> None:
        """Note that a client was not let in."""
        self.metrics.refused(code)
        self._access.refused(host, status, code)

    async def _nowhere(self, websocket: WebSocket) -> None:
        self._refused(host_of(websocket), 404, "not_found")
        await websocket.send_denial_response(missing(websocket.url.path))

    def _limits_of(self, tenant: str) -> Limits:
        given = self._authenticator.ring.limits(tenant)
        return tenant_defaults(self.settings).with_given(given)

    def _relayed(self, headers: Headers) -> dict[str, str]:
        """Return the client headers that an upstream may see."""
        return upstream_headers(headers, authorization=self.settings.forward_authorization)

    async def _prepare(self) -> None:
        settings = self.settings
        await self._upstreams.readiness.prepare(
            default_model(settings), forwards=settings.forward_authorization
        )

    async def _models(self, headers: Headers) -> list[dict[str, Any]]:
        return await self._upstreams.models(self._relayed(headers))

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._upstreams.run)
            tasks.start_soon(self._stores.run)
            tasks.start_soon(self._running.run)
            tasks.start_soon(self._limits.run)
            for one in self._read_again:
                tasks.start_soon(one.run)
            if self._engine is not None:
                tasks.start_soon(self._engine.supervise)
            tasks.start_soon(self._prepare)
            self.metrics.loop_delay.start()
            try:
                yield
            finally:
                self.metrics.loop_delay.stop()
                await self._running.aclose()
                await self._upstreams.aclose()
                await self._limits.aclose()
                await self._stores.aclose()
                if self._tracing is not None:
                    await self._tracing.aclose()
                tasks.cancel_scope.cancel()


def _tracing() -> Tracing:
    """Import what needs `multilane[otel]`, and export as OTEL_* say."""
    from gateway.telemetry.tracing import Tracing

    return Tracing()


def _connection(scope: Scope) -> Wire:
    """Return the connection that a request came by."""
    connection: Wire = scope["extensions"][EXTENSION]
    return connection
