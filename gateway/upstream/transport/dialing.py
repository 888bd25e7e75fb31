"""Opening one connection to a backend, straight or through a proxy."""

from __future__ import annotations

import asyncio
import os
import ssl
from typing import TYPE_CHECKING, TypeVar, cast

from gateway.upstream.transport.faults import TransientFault, unreachable
from lanes.errors import UpstreamFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.upstream.transport.route import Address, Proxy, Route

_MAX_HEAD_BYTES = 64 * 1024
#: What OpenSSL, by its versions, calls an answer that is not TLS.
_IN_THE_CLEAR = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG")

Connected = TypeVar("Connected", bound=asyncio.Protocol)


def tls_context() -> ssl.SSLContext:
    """The default context, for HTTP/1.1 and what upgrades from it."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


async def reach(
    route: Route,
    make: Callable[[], Connected],
    tls: ssl.SSLContext | None,
    timeout: float,
    *,
    tunnel: bool = False,
) -> Connected:
    """Dial within `timeout` seconds, and rename what can go wrong. Raises UpstreamFault."""
    try:
        async with asyncio.timeout(timeout):
            return await dial(route, make, tls, tunnel=tunnel)
    except TimeoutError as error:
        over = " over TLS" if route.address.secure else ""
        text = f"The backend could not be reached{over} within {timeout:g} seconds."
        raise unreachable(text, status=504) from error
    except ssl.SSLError as error:
        reason = f"{getattr(error, 'verify_message', '') or error.reason or error}."
        if error.reason in _IN_THE_CLEAR:
            reason = "it answers without TLS. Does its URL begin with http://?"
        raise unreachable(f"No TLS connection to the backend: {reason}") from error
    except OSError as error:
        # The system's words, where it has some: each event loop has others.
        number = error.errno or 0
        why = os.strerror(number) if number > 0 else error.strerror or error
        text = f"The backend could not be reached: {why}."
        raise unreachable(text, kind=TransientFault) from error


async def dial(
    route: Route,
    make: Callable[[], Connected],
    tls: ssl.SSLContext | None,
    *,
    tunnel: bool = False,
) -> Connected:
    """Return a connection ready for a request. Raises OSError or UpstreamFault.

    `tls` is used towards every address that is `secure`, with the host's name checked. `tunnel`
    asks a proxy for a tunnel whatever the scheme is.
    """
    proxy, address = route.proxy, route.address
    if proxy is not None and (tunnel or route.tunnelled):
        return await _through(proxy, address, make, tls)
    way = address if proxy is None else proxy.address
    _, connection = await asyncio.get_running_loop().create_connection(
        make, way.host, way.port, ssl=tls if way.secure else None
    )
    return connection


async def _through(
    proxy: Proxy, address: Address, make: Callable[[], Connected], tls: ssl.SSLContext | None
) -> Connected:
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
        if address.secure:
            assert tls is not None, "a secure address comes with a context"
            inner = await loop.start_tls(transport, connection, tls, server_hostname=address.host)
            assert inner is not None, "an open transport was upgraded"
        else:
            inner = transport
            inner.set_protocol(connection)
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
    raise unreachable(text, kind=TransientFault if again else UpstreamFault)


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
