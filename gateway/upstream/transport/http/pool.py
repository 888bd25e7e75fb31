"""The connections to one backend: made when needed, kept while idle, any number of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gateway.upstream.transport.dialing import connect, tls_context
from gateway.upstream.transport.faults import backend_fault
from gateway.upstream.transport.http.connection import HttpConnection

if TYPE_CHECKING:
    import ssl

    from gateway.upstream.transport.route import Route
    from lanes.errors import UpstreamFault


class HttpPool:
    """Hands out connections, the last used first.

    Args:
        route: Where the backend is.
        connect_timeout: Seconds for name look-up, TCP, proxy and TLS together.
        keep_idle: Seconds after which an idle connection is closed.
        tls: Replaces the default context.
    """

    def __init__(
        self,
        route: Route,
        *,
        connect_timeout: float,
        keep_idle: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._route = route
        self._connect_timeout = connect_timeout
        self._keep_idle = keep_idle
        self._tls = tls or (tls_context() if route.secure else None)
        self._open: set[HttpConnection] = set()
        self._idle: dict[HttpConnection, None] = {}  # an ordered set, longest idle first
        self._sweeper: asyncio.TimerHandle | None = None
        self._sweep_due = 0.0  # when the first of them is due, or before
        self._empty: asyncio.Future[None] | None = None
        self._closed = False

    @property
    def size(self) -> int:
        """The number of open connections, idle or not."""
        return len(self._open)

    @property
    def idle(self) -> int:
        """The number of open connections that are idle."""
        return len(self._idle)

    async def acquire(self, *, fresh: bool = False) -> HttpConnection:
        """Return a connection that is not in use, the last used or a new one.

        A `fresh` one is new: what it carries cannot be sent again if the backend has closed it.
        Raises UpstreamFault.
        """
        while self._idle and not fresh:
            connection, _ = self._idle.popitem()
            if connection.usable():
                return connection
            connection.abort()
        connection = await self._dial()
        if self._closed:
            connection.abort()
            raise _shutting_down()
        if not connection.closed:
            self._open.add(connection)
        return connection

    def close_idle(self) -> None:
        """Close every connection that is idle."""
        while self._idle:
            self._idle.popitem()[0].abort()

    async def aclose(self) -> None:
        """Close every connection, also those in use, and wait until all sockets are closed."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._open:
            self._empty = asyncio.get_running_loop().create_future()
            for connection in list(self._open):
                connection.drop(_shutting_down())
            await self._empty

    async def _dial(self) -> HttpConnection:
        if self._closed:
            raise _shutting_down()
        return await connect(
            self._route,
            lambda: HttpConnection(self._keep, self._lost, self._keep_idle),
            self._tls,
            self._connect_timeout,
        )

    def _keep(self, connection: HttpConnection) -> None:
        if self._closed:
            connection.abort()
            return
        self._idle[connection] = None
        self._sweep_at(connection.idle_until)

    def _lost(self, connection: HttpConnection) -> None:
        self._idle.pop(connection, None)
        self._open.discard(connection)
        if self._empty is not None and not self._open and not self._empty.done():
            self._empty.set_result(None)

    def _sweep(self) -> None:
        """Close what was idle for too long; one timer serves all connections."""
        self._sweeper = None
        now = asyncio.get_running_loop().time()
        for connection in [one for one in self._idle if one.idle_until <= now]:
            del self._idle[connection]
            connection.abort()
        if self._idle:
            self._sweep_at(min(one.idle_until for one in self._idle))

    def _sweep_at(self, due: float) -> None:
        """Sweep at that time, unless an earlier sweep is set."""
        if self._sweeper is not None:
            if self._sweep_due <= due:
                return
            self._sweeper.cancel()
        self._sweep_due = due
        self._sweeper = asyncio.get_running_loop().call_at(due, self._sweep)


def _shutting_down() -> UpstreamFault:
    return backend_fault("The gateway is shutting down.", status=503)
