"""SHELL: the WebSocket route: refuses upgrades, and serves those who are let in."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse
from starlette.websockets import WebSocket

from gateway.client.connection import ClientConnection
from gateway.client.http_protocol import RETRY_AFTER, no_room
from gateway.client.options import connection_options
from gateway.client.peers import EXTENSION
from gateway.client.refusal import UpgradeRefused, error
from gateway.telemetry.access_log import ConnectionLog
from lanes.errors import Fault
from lanes.observer import Observers

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

    from gateway.census import Census
    from gateway.client.admission import Admission
    from gateway.client.auth import AdmittedClient, Headers
    from gateway.client.peers import Peers
    from gateway.client.socket import ClientSocket
    from gateway.config.settings import Settings
    from gateway.limits.tenant import TenantQuota
    from gateway.limits.tenants import TenantLimits
    from gateway.persistence.stores import Stores
    from gateway.telemetry.access_log import AccessLog
    from gateway.telemetry.metrics import Metrics
    from lanes.ports import Upstream
    from lanes.worker import Worker


class SocketEndpoint:
    """All WebSockets of one process, as a bare ASGI application with nothing in between.

    Args:
        admission: Lets clients in.
        limits: How much each tenant may do.
        peers: Counts the connections of all kinds.
        census: Holds those that are open.
        upstream: Answers the requests.
        stores: What outlives a socket.
        settings: The gateway's.
        relayed: Picks the headers that upstreams may see.
        access: Where the log lines about connections go.
        metrics: Where these and their responses are counted.
        refused: Notes that a client was not let in: its address, the status and the code.
        make: Makes the workers of connections.
    """

    def __init__(
        self,
        admission: Admission,
        limits: TenantLimits,
        peers: Peers,
        census: Census,
        upstream: Upstream,
        stores: Stores,
        settings: Settings,
        relayed: Callable[[Headers], dict[str, str]],
        access: AccessLog,
        metrics: Metrics,
        refused: Callable[[str | None, int, str], None],
        make: Callable[..., Worker],
    ) -> None:
        self._admission = admission
        self._limits = limits
        self._peers = peers
        self._upstream = upstream
        self._stores = stores
        self._settings = settings
        self._relayed = relayed
        self._access = access
        self._metrics = metrics
        self._refused = refused
        self._census = census
        self._make = make

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit a client and serve it, or refuse the upgrade with a status and a JSON body."""
        websocket = WebSocket(scope, receive, send)
        try:
            self._check_room()
            admitted = await self._admission.admit(scope["headers"])
            quota = self._limits.of(admitted.key_id)
            slot = await quota.connect()
        except (UpgradeRefused, Fault) as refused:
            await self._refuse(websocket, refused)
            return
        try:
            self._check_draining()
            await self._serve(websocket, receive, admitted, quota)
        except UpgradeRefused as refused:
            await self._refuse(websocket, refused)
        finally:
            slot.leave()

    async def _serve(
        self,
        websocket: WebSocket,
        receive: Receive,
        admitted: AdmittedClient,
        quota: TenantQuota,
    ) -> None:
        """Accept a client's upgrade, and serve it until it leaves.

        Args:
            websocket: Its WebSocket.
            receive: Receives its messages.
            admitted: Who it is.
            quota: How much its tenant may do.
        """
        await websocket.receive()
        options = connection_options(websocket.scope)
        await websocket.accept(admitted.subprotocol, options.headers)
        socket: ClientSocket = websocket.scope["extensions"][EXTENSION]
        key = admitted.key
        name = admitted.key_id if key is None else key.key.name
        self._census.accepted += 1
        events = ConnectionLog(self._access, name, self._census.accepted)
        connection = ClientConnection(
            socket,
            self._upstream,
            self._stores,
            self._settings,
            admitted.key_id,
            self._relayed(websocket.scope["headers"]),
            key,
            quota,
            Observers(events, self._metrics.observer("socket")),
            self._metrics.sockets,
            options,
            self._make,
        )
        self._census.connections.add(connection)
        events.opened(socket.peer, host_of(websocket))
        try:
            with nullcontext() if key is None else key.holding(connection.revoke):
                await connection.serve(receive)
        finally:
            self._census.connections.discard(connection)
            events.closed(socket.code, socket.why)

    async def _refuse(self, websocket: WebSocket, refused: UpgradeRefused | Fault) -> None:
        self._refused(host_of(websocket), refused.status, refused.code or "")
        kind = refused.type if isinstance(refused, Fault) else None
        body = error(refused.code, refused.message, refused.status, type=kind)
        headers = dict(refused.headers or {})
        await websocket.send_denial_response(JSONResponse(body, refused.status, headers))

    def _check_room(self) -> None:
        self._check_draining()
        if self._peers.full:
            raise no_room(f"The gateway serves {self._settings.max_connections} connections.")

    def _check_draining(self) -> None:
        if self._census.draining:
            message = "The gateway is shutting down."
            retry = {"Retry-After": RETRY_AFTER}
            raise UpgradeRefused(503, "server_shutting_down", message, retry)


def host_of(websocket: WebSocket) -> str | None:
    """Return the client's address, the one that a trusted proxy names if there is one."""
    return None if websocket.client is None else websocket.client.host
