"""One new connection to a backend, directly or through a proxy."""

from __future__ import annotations

import asyncio
import os
import select
import ssl
from typing import TYPE_CHECKING, TypeVar, cast

from gateway.upstream.transport.faults import TransientFault, backend_fault
from lanes.errors import UpstreamFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.upstream.transport.route import Address, Proxy, Route

_MAX_HEAD_BYTES = 64 * 1024
#: What the versions of OpenSSL call an answer that is not TLS.
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG")

Connected = TypeVar("Connected", bound=asyncio.Protocol)


def tls_context() -> ssl.SSLContext:
    """Return the default context, for HTTP/1.1 and upgrades from it."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def has_unread(transport: asyncio.BaseTransport) -> bool:
    """Return whether bytes or the end of a connection have arrived that the loop did not read yet.

    A connection that is idle has nothing to say but that it ends.
    """
    return bool(unread_check(transport)(0))


def unread_check(transport: asyncio.BaseTransport) -> Callable[[int], list[tuple[int, int]]]:
    """Return what is true as `has_unread` is; to be called with 0 while the connection is open."""
    poll = select.poll()
    sock = transport.get_extra_info("socket")
    if sock is not None:
        poll.register(sock.fileno(), select.POLLIN)
    return poll.poll


async def connect(
    route: Route,
    protocol_factory: Callable[[], Connected],
    tls: ssl.SSLContext | None,
    timeout: float,
    *,
    tunnel: bool = False,
) -> Connected:
    """Return a connection that is ready for a request.

    Args:
        route: Where the backend is.
        protocol_factory: Makes the protocol of the connection.
        tls: The context for every address that is `secure`; the host's name is checked.
        timeout: Seconds for name look-up, TCP, proxy and TLS together.
        tunnel: Whether to ask a proxy for a tunnel, whatever the scheme is.

    Raises:
        UpstreamFault: The backend or the proxy cannot be reached.
    """
    try:
        async with asyncio.timeout(timeout):
            return await _dial(route, protocol_factory, tls, tunnel=tunnel)
    except TimeoutError as error:
        tls_part = " over TLS" if route.address.secure else ""
        text = f"The backend could not be reached{tls_part} within {timeout:g} seconds."
        raise backend_fault(text, status=504) from error
    except ssl.SSLError as error:
        reason = f"{getattr(error, 'verify_message', '') or error.reason or error}."
        if error.reason in _NOT_TLS:
            reason = "it answers without TLS. Does its URL begin with http://?"
        raise backend_fault(f"No TLS connection to the backend: {reason}") from error
    except OSError as error:
        # The words of the system, where it has some: each event loop words them differently.
        number = error.errno or 0
        cause = os.strerror(number) if number > 0 else error.strerror or error
        text = f"The backend could not be reached: {cause}."
        raise backend_fault(text, kind=TransientFault) from error


async def _dial(
    route: Route,
    protocol_factory: Callable[[], Connected],
    tls: ssl.SSLContext | None,
    *,
    tunnel: bool,
) -> Connected:
    """Return a connection that is ready for a request. Raises OSError or UpstreamFault."""
    proxy, address = route.proxy, route.address
    if proxy is not None and (tunnel or route.tunnelled):
        return await _dial_through(proxy, address, protocol_factory, tls)
    peer = address if proxy is None else proxy.address
    _, connection = await asyncio.get_running_loop().create_connection(
        protocol_factory, peer.host, peer.port, ssl=tls if peer.secure else None
    )
    return connection


async def _dial_through(
    proxy: Proxy,
    address: Address,
    protocol_factory: Callable[[], Connected],
    tls: ssl.SSLContext | None,
) -> Connected:
    loop = asyncio.get_running_loop()
    lines = [f"CONNECT {address.authority} HTTP/1.1", f"host: {address.authority}"]
    if proxy.authorization is not None:
        lines.append(f"proxy-authorization: {proxy.authorization}")
    request = "\r\n".join([*lines, "", ""]).encode("latin-1")
    peer = proxy.address
    transport, tunnel = await loop.create_connection(
        lambda: _TunnelRequest(request), peer.host, peer.port, ssl=tls if peer.secure else None
    )
    try:
        _check_tunnel(await tunnel.head)
        connection = protocol_factory()
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


def _check_tunnel(head: bytes) -> None:
    """Raise UpstreamFault unless the proxy has opened the tunnel."""
    words = head.split(b" ", 2)
    status = words[1][:20].decode("latin-1") if len(words) > 1 else "nothing"
    if status.startswith("2"):
        return
    text = f"The proxy answered {status} when asked for a tunnel to the backend."
    transient = status in ("nothing", "502", "503", "504")
    raise backend_fault(text, kind=TransientFault if transient else UpstreamFault)


class _TunnelRequest(asyncio.Protocol):
    """A request for a tunnel; `head` becomes the proxy's answer, empty if it hung up."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._received = bytearray()
        self.head: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if b"\r\n\r\n" in self._received or len(self._received) > _MAX_HEAD_BYTES:
            self._answer(bytes(self._received))

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # a proxy that hangs up has answered, whatever the reason
        self._answer(b"")

    def _answer(self, head: bytes) -> None:
        if not self.head.done():
            self.head.set_result(head)
