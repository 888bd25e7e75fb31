"""Counts the open sockets of a process, and those of each address that have shown no key. Pure."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gateway.client.auth import Headers
    from gateway.client.refusal import UpgradeRefused

    Network = ipaddress.IPv4Network | ipaddress.IPv6Network
    Address = ipaddress.IPv4Address | ipaddress.IPv6Address

#: Key of a client's connection among the extensions in the ASGI scope.
EXTENSION: Final = "multilane.socket"
#: Sockets beyond `max_connections` that still get an answer: plain requests such as /health are
#: served on them, and upgrades are refused.
HEADROOM: Final = 256
#: Bits of an IPv6 address that one peer has: the rest is its own choice.
PREFIX: Final = 64


class Peers:
    """The open sockets, and which of them wait for a key (protocol.md 1).

    Args:
        max_sockets: Sockets at a time.
        max_pending: Sockets of one address without a key; of more, none may make the gateway wait.
        proxies: Networks whose X-Forwarded-For is believed.
        tell: Hears of each refusal: the client's address, the status and the code.
    """

    def __init__(
        self,
        max_sockets: int,
        max_pending: int,
        proxies: Iterable[Network],
        tell: Callable[[str | None, int, str], None] | None = None,
    ) -> None:
        self.max_sockets = max_sockets
        self.max_pending = max_pending
        self.proxies = TrustedProxies(proxies)
        self.tell = tell
        self.open = 0
        #: Requests and upgrades that were refused before they reached the application.
        self.refused = 0
        self._pending: dict[str, int] = {}

    @property
    def full(self) -> bool:
        """Whether there are more sockets than may stay."""
        return self.open > self.max_sockets

    @property
    def overfull(self) -> bool:
        """Whether there are more sockets than can be answered."""
        return self.open > self.max_sockets + HEADROOM

    def enter(self, host: str | None) -> Visit:
        """Count a socket from this address, until its visit leaves."""
        self.open += 1
        return Visit(self, host)

    def pending(self, host: str) -> int:
        """Return how many sockets of this address have shown no key."""
        return self._pending.get(peer(host), 0)

    def count(self, key: str, change: int) -> int:
        """Change the number of pending sockets of a peer, and return it."""
        number = self._pending.get(key, 0) + change
        if number:
            self._pending[key] = number
        else:
            del self._pending[key]
        return number


class Visit:
    """One socket in the count of its peers, from accept until it is gone."""

    __slots__ = ("_host", "_key", "_peers", "crowded", "proxied")

    def __init__(self, peers: Peers, host: str | None) -> None:
        self._peers = peers
        self._host = host
        self._key: str | None = None
        #: Whether the address had too many pending sockets already.
        self.crowded = False
        #: Whether a trusted proxy sits at the other end.
        self.proxied = host is not None and host in peers.proxies
        if host is not None and not self.proxied:
            self._count(host)

    def forwarded(self, headers: Headers) -> str | None:
        """Count the socket for the address that a trusted proxy names, and return it."""
        host = self._peers.proxies.client(headers) if self.proxied else None
        if self.proxied:
            self.keyed()
            self.crowded = False
            if host is not None:
                self._count(host)
                self._host = host
        return host

    def keyed(self) -> None:
        """Stop counting the socket against its address: its client has shown a key. Idempotent."""
        if self._key is not None:
            self._peers.count(self._key, -1)
            self._key = None

    def refused(self, refusal: UpgradeRefused) -> None:
        """Count and tell a refusal of this socket."""
        self._peers.refused += 1
        if self._peers.tell is not None:
            self._peers.tell(self._host, refusal.status, refusal.code)

    def leave(self) -> None:
        """Stop counting the socket, which is gone."""
        self.keyed()
        self._peers.open -= 1

    def _count(self, host: str) -> None:
        self._key = peer(host)
        self.crowded = self._peers.count(self._key, 1) > self._peers.max_pending


class TrustedProxies:
    """The proxies that may say who their clients are."""

    def __init__(self, networks: Iterable[Network]) -> None:
        self._networks = tuple(networks)
        self._trusts = lru_cache(maxsize=1024)(self._compute)

    def __contains__(self, host: str) -> bool:
        return bool(self._networks) and self._trusts(host)

    def client(self, headers: Headers) -> str | None:
        """Return the rightmost address in X-Forwarded-For that is no trusted proxy."""
        values = [value for name, value in headers if name == b"x-forwarded-for"]
        for value in reversed(b",".join(values).decode("latin-1").split(",")):
            address = _address(_without_port(value.strip()))
            if address is None:
                return None
            if str(address) not in self:
                return str(address)
        return None

    def _compute(self, host: str) -> bool:
        address = _address(host)
        return address is not None and any(address in network for network in self._networks)


def show_key(scope: Mapping[str, Any]) -> None:
    """Stop counting a request's connection against its address: its client has shown a key."""
    connection = (scope.get("extensions") or {}).get(EXTENSION)
    if connection is not None:
        connection.keyed()


def peer(host: str) -> str:
    """Return what identifies a peer: its IPv4 address, or the network of its IPv6 address."""
    if ":" not in host:
        return host
    address = _address(host)
    if not isinstance(address, ipaddress.IPv6Address):
        return host if address is None else str(address)
    return str(ipaddress.ip_network((int(address) >> PREFIX << PREFIX, PREFIX)))


def _address(host: str) -> Address | None:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _without_port(value: str) -> str:
    if value.startswith("["):
        return value[1:].partition("]")[0]
    return value.partition(":")[0] if value.count(":") == 1 else value
