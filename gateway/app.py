"""Composition root: builds the parts of a gateway, connects them, and starts and stops them."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import anyio
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from gateway.census import Census
from gateway.client.admission import Admission
from gateway.client.auth import Authenticator, upstream_headers
from gateway.client.certificate import Certificate
from gateway.client.connection import ClientConnection
from gateway.client.http_protocol import RETRY_AFTER, no_room
from gateway.client.peers import EXTENSION, Peers
from gateway.client.refusal import UpgradeRefused, error
from gateway.config.configured_upstreams import default_model, upstreams
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
from gateway.persistence.stores import Stores
from gateway.telemetry.access_log import AccessLog, ConnectionLog
from gateway.telemetry.metrics import Metrics
from gateway.upstream.routing.router import Router
from lanes.frames import CANCEL, EXTENSIONS
from lanes.observer import Observers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.types import Receive, Scope, Send

    from gateway.client.auth import AdmittedClient, Headers
    from gateway.client.socket import ClientSocket
    from gateway.config.settings import Settings
    from gateway.http.answers import Wire

log = logging.getLogger("multilane")

#: Says to whoever connects what is taken beyond the reference.
_EXTENSIONS = [(EXTENSIONS.encode(), CANCEL.encode())]


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
        self._admission = Admission(self._authenticator, secrets)
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
        wires = Wires(
            _connection,
            settings.heartbeat_interval,
            settings.send_buffer_bytes,
            settings.stall_timeout,
            self.metrics.http,
        )
        background = BackgroundResponses(self._stores, self._running)
        stored = StoredResponses(self._stores, background, wires)
        workers = Engine(self._upstreams, self._stores, settings, self._access, self.metrics)
        creation = ResponseCreation(workers, self._running, wires, self._relayed, stored)
        compactions = Compactions(workers, self._running, wires, self._relayed)
        counts = TokenCounts(
            self._upstreams, self._stores.archive, self._running, wires, self._relayed, settings
        )
        conversations = ConversationRequests(self._stores.archive, settings)
        making = ClientSecretRequests(secrets, self._upstreams, self._relayed, settings)
        passed = Passthrough(self._upstreams, self._running, wires, self._relayed, settings)
        routes = HttpRoutes(
            self._admission,
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
            self._admission,
            self._stores,
            self._upstreams,
            lambda: self.census.draining,
            self.census.counts,
        )
        self.app = Starlette(
            routes=[
                WebSocketRoute("/v1/responses", _Endpoint(self)),
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

    async def serve(self, websocket: WebSocket, receive: Receive) -> None:
        """Admit a client and serve it, or refuse the upgrade with a status and a JSON body."""
        headers = websocket.scope["headers"]
        try:
            self._check_room()
            admitted = await self._admission.admit(headers)
        except UpgradeRefused as refused:
            body = error(refused.code, refused.message, refused.status)
            response = JSONResponse(body, refused.status, refused.headers)
            self._refused(_host(websocket), refused.status, refused.code)
            await websocket.send_denial_response(response)
            return
        await websocket.receive()
        await websocket.accept(admitted.subprotocol, _EXTENSIONS)
        socket: ClientSocket = websocket.scope["extensions"][EXTENSION]
        self.census.accepted += 1
        events = ConnectionLog(self._access, _name(admitted), self.census.accepted)
        connection = ClientConnection(
            socket,
            self._upstreams,
            self._stores,
            self.settings,
            admitted.key_id,
            self._relayed(headers),
            admitted.key,
            Observers(events, self.metrics.observer("socket")),
            self.metrics.sockets,
        )
        self.census.connections.add(connection)
        events.opened(socket.peer, _host(websocket))
        try:
            with nullcontext() if admitted.key is None else admitted.key.holding(connection.revoke):
                await connection.serve(receive)
        finally:
            self.census.connections.discard(connection)
            events.closed(socket.code, socket.why)

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

    def _check_room(self) -> None:
        if self.census.draining:
            retry = {"Retry-After": RETRY_AFTER}
            raise UpgradeRefused(
                503, "server_shutting_down", "The gateway is shutting down.", retry
            )
        if self.peers.full:
            raise no_room(f"The gateway serves {self.settings.max_connections} connections.")

    async def _nowhere(self, websocket: WebSocket) -> None:
        self._refused(_host(websocket), 404, "not_found")
        await websocket.send_denial_response(missing(websocket.url.path))

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
                await self._stores.aclose()
                tasks.cancel_scope.cancel()


class _Endpoint:
    """The WebSocket route as a bare ASGI application, with nothing in between."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._gateway.serve(WebSocket(scope, receive, send), receive)


def _connection(scope: Scope) -> Wire:
    """Return the connection that a request came by."""
    connection: Wire = scope["extensions"][EXTENSION]
    return connection


def _host(websocket: WebSocket) -> str | None:
    """Return the client's address, the one that a trusted proxy names if there is one."""
    return None if websocket.client is None else websocket.client.host


def _name(client: AdmittedClient) -> str:
    """Return what the log calls a client's key."""
    return client.key_id if client.key is None else client.key.key.name
