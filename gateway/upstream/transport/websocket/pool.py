"""The sockets to one backend, shared by requests with the same path and headers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gateway.upstream.transport.dialing import connect, tls_context
from gateway.upstream.transport.faults import TransientFault, backend_fault
from gateway.upstream.transport.websocket.connection import UpstreamSocket
from gateway.upstream.transport.websocket.handshake import Handshake
from gateway.upstream.transport.websocket.limits import WebSocketCapacity
from lanes.errors import UpstreamFault

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from gateway.upstream.transport.route import Route
    from gateway.upstream.transport.websocket.lane import UpstreamLane
    from gateway.upstream.transport.websocket.limits import WebSocketLimits

#: The path and the headers of an upgrade.
_Key = tuple[str, frozenset[tuple[str, str]]]


class UpstreamSocketPool:
    """Hands out lanes on the oldest socket that has room, else on a new one.

    Args:
        route: Where the backend is.
        limits: The limits of its sockets.
        native: Whether the backend itself can steer the streams.
        tls: Replaces the default context.
    """

    def __init__(
        self,
        route: Route,
        limits: WebSocketLimits,
        *,
        native: bool,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._route = route
        self._limits = limits
        self._capacity = WebSocketCapacity(limits.lanes)
        self._native = native
        self._tls = tls or (tls_context() if route.secure else None)
        # The oldest first; ended ones are removed.
        self._sockets: dict[UpstreamSocket, _Key] = {}
        self._open: set[UpstreamSocket] = set()
        self._dialling: set[asyncio.Task[None]] = set()
        self._empty: asyncio.Future[None] | None = None
        self._closed = False

    @property
    def busy(self) -> list[int]:
        """How many responses each socket carries, the oldest first."""
        return [socket.busy for socket in self._sockets]

    async def lane(self, path: str, headers: Mapping[str, str]) -> UpstreamLane:
        """Return a lane on an open socket, for one response. Raises UpstreamFault."""
        if self._closed:
            raise _shutting_down()
        key = path, frozenset(headers.items())
        socket = self._roomy(key) or self._make(key)
        lane = socket.take()
        try:
            await socket.opened()
        except BaseException:
            lane.leave()
            raise
        return lane

    def _roomy(self, key: _Key) -> UpstreamSocket | None:
        """Return a socket with room.

        One that drags a response along gets no more as long as there may be others: so it ends,
        and cancels that response, with the last one that is wanted.
        """
        dragging = None
        for socket, of in list(self._sockets.items()):
            if of != key or not socket.has_room():
                continue
            if not socket.drags:
                return socket
            dragging = dragging or socket
        return dragging if len(self._sockets) >= self._limits.sockets else None

    async def aclose(self) -> None:
        """Send every socket a close frame, and wait until all are closed."""
        self._closed = True
        for task in self._dialling:
            task.cancel()
        for socket in list(self._sockets):
            socket.end(_shutting_down())
        if self._open:
            self._empty = asyncio.get_running_loop().create_future()
            await self._empty

    def _make(self, key: _Key) -> UpstreamSocket:
        self._close_surplus()
        path, headers = key
        limits = self._limits
        handshake = Handshake(self._route, path, dict(headers), limits.max_event)
        socket = UpstreamSocket(
            handshake, limits, self._capacity, self._ended, self._lost, native=self._native
        )
        self._sockets[socket] = key
        # Many requests wait for it, and any of them may leave: so a task of its own dials.
        task = asyncio.get_running_loop().create_task(self._dial(socket))
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)
        return socket

    async def _dial(self, socket: UpstreamSocket) -> None:
        try:
            await connect(self._route, lambda: socket, self._tls, self._limits.connect, tunnel=True)
        except UpstreamFault as fault:
            socket.drop(fault)
        else:
            if socket.connected:
                self._open.add(socket)

    def _close_surplus(self) -> None:
        """Close the longest idle socket if there are too many; if none is idle, raise the fault."""
        if len(self._sockets) < self._limits.sockets:
            return
        idle = [socket for socket in self._sockets if not socket.busy]
        if not idle:
            text = f"All {self._limits.sockets} sockets to the backend are in use."
            raise backend_fault(text, status=503, kind=TransientFault)
        min(idle, key=lambda socket: socket.idle_since).end(_shutting_down())

    def _ended(self, socket: UpstreamSocket) -> None:
        self._sockets.pop(socket, None)

    def _lost(self, socket: UpstreamSocket) -> None:
        self._open.discard(socket)
        if self._empty is not None and not self._open and not self._empty.done():
            self._empty.set_result(None)


def _shutting_down() -> UpstreamFault:
    return backend_fault("The gateway is shutting down.", status=503)
