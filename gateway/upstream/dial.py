"""Opening one connection to a backend, straight or through a proxy."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from gateway.upstream.faults import Transient, unreachable
from lanes.errors import UpstreamFault

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from gateway.upstream.route import Address, Proxy, Route
    from gateway.upstream.wire import Connection

_MAX_HEAD_BYTES = 64 * 1024


async def dial(
    route: Route, make: Callable[[], Connection], tls: ssl.SSLContext | None
) -> Connection:
    """Return a connection ready for a request. Raises OSError or UpstreamFault.

    `tls` is used towards every address that is `secure`, with the host's name checked.
    """
    proxy, address = route.proxy, route.address
    if proxy is not None and route.tunnelled:
        return await _through(proxy, address, make, tls)
    way = address if proxy is None else proxy.address
    _, connection = await asyncio.get_running_loop().create_connection(
        make, way.host, way.port, ssl=tls if way.secure else None
    )
    return connection


async def _through(
    proxy: Proxy, address: Address, make: Callable[[], Connection], tls: ssl.SSLContext | None
) -> Connection:
    loop = asyncio.get_running_loop()
    lines = [f"CONNECT {address.authority} HTTP/1.1", f"host: {address.authority}"]
    if proxy.authorization is not None:
        lines.append(f"proxy-authorization: {proxy.authorization}")
    request = "\r\n".join([*lines, "", ""]).encode("latin-1")
    way = proxy.address
    transport, tunnel = await loop.create_connection(
        lambda: _Tunnel(request), way.host, way.port, ssl=tls if way.secure else None
    )
    try:
        _check(await tunnel.head)
        connection = make()
        assert tls is not None, "a tunnel is for https only"
        inner = await loop.start_tls(transport, connection, tls, server_hostname=address.host)
        assert inner is not None, "an open transport was upgraded"
    except BaseException:
        transport.abort()
        raise
    connection.connection_made(inner)
    return connection


def _check(head: bytes) -> None:
    """Raise UpstreamFault unless the proxy has opened the tunnel."""
    status = head.split(b" ", 2)[1:2]
    if status and status[0].startswith(b"2"):
        return
    said = status[0].decode("latin-1") if status else "nothing"
    text = f"The proxy answered {said} when asked for a tunnel to the backend."
    again = said in ("nothing", "502", "503", "504")
    raise unreachable(text, kind=Transient if again else UpstreamFault)


class _Tunnel(asyncio.Protocol):
    """Asks a proxy for a tunnel; `head` becomes its answer, empty if it hung up."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._got = bytearray()
        self.head: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        self._got += data
        if b"\r\n\r\n" in self._got or len(self._got) > _MAX_HEAD_BYTES:
            self._answer(bytes(self._got))

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # hanging up is an answer, whatever the reason
        self._answer(b"")

    def _answer(self, head: bytes) -> None:
        if not self.head.done():
            self.head.set_result(head)
