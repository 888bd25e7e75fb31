"""Binds the address of a server before anything else starts; a server that ends in order."""

from __future__ import annotations

import contextlib
import errno
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import uvicorn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Connections that may wait to be accepted.
BACKLOG: Final = 2048
#: Attempts to find a port that is free on every address of a name.
ATTEMPTS: Final = 10
#: Errors for an address that this machine does not have.
MISSING: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


class BindFailed(Exception):
    """The address cannot be bound; one line names the setting and the reason."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Sockets that listen on one host and one port: the one bound if port 0 was requested."""

    host: str
    port: int
    sockets: list[socket.socket]

    @property
    def place(self) -> str:
        """`host:port` as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def close(self) -> None:
        """Stop listening. Idempotent."""
        for one in self.sockets:
            one.close()


def listen(host: str, port: int, ways: str = "--port", *, option: str = "--") -> Listener:
    """Listen on all addresses of `host`.

    Args:
        host: Name or IP address.
        port: Port; 0 takes a free one.
        ways: How to choose another port, for the error message.
        option: How the names of both options begin, for the same.

    Raises:
        BindFailed: The name is unknown, or the port cannot be bound.
    """
    try:
        candidates = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "it is no host name"
        raise BindFailed(f"{option}host: {host} is not known here: {why}") from None
    addresses = list(dict.fromkeys((family, address) for family, _, _, _, address in candidates))
    attempts = ATTEMPTS if port == 0 else 1
    while True:
        attempts -= 1
        try:
            return _all(host, port, addresses)
        except OSError as error:
            if attempts and error.errno == errno.EADDRINUSE:
                continue  # it was free only on the first address
            raise BindFailed(_why(host, port, error, ways, option)) from None


def _all(
    host: str, port: int, addresses: Iterable[tuple[socket.AddressFamily, tuple[Any, ...]]]
) -> Listener:
    """Listen on each address that this machine has, but on at least one."""
    missing: OSError | None = None
    with contextlib.ExitStack() as undo:
        listening: list[socket.socket] = []
        for family, address in addresses:
            try:
                one = _one(family, (address[0], port, *address[2:]))
            except OSError as error:
                if error.errno not in MISSING:
                    raise
                missing = error
            else:
                listening.append(undo.enter_context(one))
                port = one.getsockname()[1]
        if missing is not None and not listening:
            raise missing
        undo.pop_all()
    return Listener(host, port, listening)


def _one(family: socket.AddressFamily, address: tuple[object, ...]) -> socket.socket:
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(address)
        # Immediately: two sockets that are merely bound may both get the same port.
        one.listen(BACKLOG)
        one.settimeout(0)
    except BaseException:
        one.close()
        raise
    return one


def _why(host: str, port: int, error: OSError, ways: str, option: str) -> str:
    if error.errno in MISSING:
        return f"{option}host: {host} is no address of this machine"
    reasons = {errno.EADDRINUSE: "is in use", errno.EACCES: "is for privileged users only"}
    why = reasons.get(error.errno or 0, f"cannot be listened on: {error.strerror}")
    return f"{option}port: {port} on {host} {why}; choose another with {ways}"


class OrderlyServer(uvicorn.Server):
    """uvicorn's server, but after a signal it returns instead of raising the signal again."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals like uvicorn, and forget them at the end."""
        with super().capture_signals():
            try:
                yield
            finally:
                self._captured_signals.clear()
