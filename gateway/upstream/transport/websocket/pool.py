"""The sockets of one backend: shared by whoever shows it the same headers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gateway.upstream.transport.dialing import reach, tls_context
from gateway.upstream.transport.faults import TransientFault, unreachable
from gateway.upstream.transport.websocket.connection import UpstreamSocket
from gateway.upstream.transport.websocket.handshake import Handshake
from gateway.upstream.transport.websocket.limits import SocketCapacity
from lanes.errors import UpstreamFault

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from gateway.upstream.transport.route import Route
    from gateway.upstream.transport.websocket.lane import UpstreamLane
    from gateway.upstream.transport.websocket.limits import SocketLimits

#: Where a socket leads and what is shown there: the path and the headers.
_Key = tuple[str, frozenset[tuple[str, str]]]


class UpstreamSocketPool:
    """Hands out lanes, on the oldest socket that has room; the last but for one is a new one."""

    def __init__(
        self, route: Route, terms: SocketLimits, *, native: bool, tls: ssl.SSLContext | None = None
    ) -> None:
        self._route = route
        self._terms = terms
        self._room = SocketCapacity(terms.lanes)
        self._native = native
        self._tls = tls or (tls_context() if route.secure else None)
        # In the order in which they were made; those that ended are gone.
        self._links: dict[UpstreamSocket, _Key] = {}
        self._open: set[UpstreamSocket] = set()
        self._dialling: set[asyncio.Task[None]] = set()
        self._empty: asyncio.Future[None] | None = None
        self._closed = False

    @property
    def busy(self) -> list[int]:
        """How many responses each socket carries, the oldest first."""
        return [link.busy for link in self._links]

    async def lane(self, path: str, headers: Mapping[str, str]) -> UpstreamLane:
        """A lane on an open socket, for one response. Raises UpstreamFault."""
        if self._closed:
            raise _shutting_down()
        key = path, frozenset(headers.items())
        same = (link for link, of in list(self._links.items()) if of == key)
        link = next((link for link in same if link.takes()), None)
        if link is None:
            link = self._make(key)
        lane = link.take()
        try:
            await link.opened()
        except BaseException:
            lane.leave()
            raise
        return lane

    async def aclose(self) -> None:
        """Close every socket in an orderly way, and wait until they are closed."""
        self._closed = True
        for task in self._dialling:
            task.cancel()
        for link in list(self._links):
            link.end(_shutting_down())
        if self._open:
            self._empty = asyncio.get_running_loop().create_future()
            await self._empty

    def _make(self, key: _Key) -> UpstreamSocket:
        self._make_room()
        path, headers = key
        terms = self._terms
        handshake = Handshake(self._route, path, dict(headers), terms.max_event)
        link = UpstreamSocket(
            handshake, terms, self._room, self._ended, self._lost, native=self._native
        )
        self._links[link] = key
        # Many wait for it, and any of them may leave: so dialling is a task of its own.
        task = asyncio.get_running_loop().create_task(self._dial(link))
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)
        return link

    async def _dial(self, link: UpstreamSocket) -> None:
        try:
            await reach(self._route, lambda: link, self._tls, self._terms.connect, tunnel=True)
        except UpstreamFault as fault:
            link.drop(fault)
        else:
            if link.connected:
                self._open.add(link)

    def _make_room(self) -> None:
        """Close the socket that has been without a response for longest, if there are too many."""
        if len(self._links) < self._terms.links:
            return
        idle = [link for link in self._links if not link.busy]
        if not idle:
            text = f"All {self._terms.links} sockets to the backend are in use."
            raise unreachable(text, status=503, kind=TransientFault)
        min(idle, key=lambda link: link.idle_since).end(_shutting_down())

    def _ended(self, link: UpstreamSocket) -> None:
        self._links.pop(link, None)

    def _lost(self, link: UpstreamSocket) -> None:
        self._open.discard(link)
        if self._empty is not None and not self._open and not self._empty.done():
            self._empty.set_result(None)


def _shutting_down() -> UpstreamFault:
    return unreachable("The gateway is shutting down.", status=503)
