"""Where a backend is, and the proxy in front of it. Pure, except for the environment's proxies."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

if TYPE_CHECKING:
    from collections.abc import Mapping

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    """One host to connect to; `host` is ready for the resolver and the certificate check."""

    secure: bool
    host: str
    port: int

    @property
    def authority(self) -> str:
        """Return `host:port` as a CONNECT request names it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy's address, and the value of its Proxy-Authorization header if it needs one."""

    address: Address
    authorization: str | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """The parts of a base URL, with the proxy that the environment names for it.

    A request line names `origin` (empty unless a proxy needs it), `prefix`, the path and `query`.
    """

    address: Address
    host_header: str
    origin: str
    prefix: str
    query: str
    proxy: Proxy | None = None

    @property
    def secure(self) -> bool:
        """Whether the backend or the proxy needs TLS."""
        return self.address.secure or (self.proxy is not None and self.proxy.address.secure)

    @property
    def tunnelled(self) -> bool:
        """Whether the connection is a tunnel (CONNECT) through the proxy."""
        return self.proxy is not None and self.address.secure


def parse_route(base_url: str, proxies: Mapping[str, str] | None = None) -> Route:
    """Take a base URL apart; `proxies` (scheme -> URL) replaces those of the environment.

    Raises ValueError, with a message for the operator, when it cannot be a base URL.
    """
    parts = urlsplit(base_url)
    if parts.username is not None or parts.password is not None:
        raise ValueError("a base URL holds no user name or password: send a header instead")
    if parts.fragment or not base_url.isascii() or any(c <= " " for c in base_url):
        raise ValueError(f"{base_url!r} is no base URL: it has a fragment, a space or non-ASCII")
    address = _address(parts, base_url)
    name = f"[{address.host}]" if ":" in address.host else address.host
    default = _PORTS[parts.scheme] == address.port
    host_header = name if default else address.authority
    proxy = _proxy(parts.scheme, address, proxies)
    # A proxy is asked for the whole URL, unless it only opens a tunnel.
    origin = "" if proxy is None or address.secure else f"http://{host_header}"
    return Route(
        address,
        host_header,
        origin,
        prefix=parts.path.rstrip("/"),
        query=f"?{parts.query}" if parts.query else "",
        proxy=proxy,
    )


def is_resolvable(host: str) -> bool:
    """Return whether a resolver can take `host`: it breaks on empty and on too long labels."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def _address(parts: SplitResult, url: str) -> Address:
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(f"{url!r} is no base URL: it needs http:// or https:// and a host")
    port = parts.port  # raises ValueError
    if not is_resolvable(parts.hostname):
        raise ValueError(f"{url!r} is no base URL: no host can have that name")
    return Address(parts.scheme == "https", parts.hostname, port or _PORTS[parts.scheme])


def _proxy(scheme: str, address: Address, proxies: Mapping[str, str] | None) -> Proxy | None:
    if proxies is None:
        # NO_PROXY entries may have a port or not, and hold IPv6 addresses without brackets.
        if proxy_bypass(address.authority) or proxy_bypass(address.host):
            return None
        proxies = getproxies()
    url = proxies.get(scheme) or proxies.get("all")
    if not url:
        return None
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in _PORTS:
        raise ValueError(f"a {parts.scheme} proxy is not supported: use http:// or https://")
    authorization = None
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return Proxy(_address(parts, "the proxy's URL"), authorization)
