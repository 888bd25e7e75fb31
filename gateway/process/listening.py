"""The address that a server listens on, taken before anything else is started; orderly signals."""

from __future__ import annotations

import contextlib
import errno
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import uvicorn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Connections that may wait to be taken.
BACKLOG: Final = 2048
#: How often a free port is looked for that is free on each of a name's addresses.
TRIES: Final = 10
#: Errors that say that a machine does not have an address.
MISSING: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


class BindFailed(Exception):
    """The address cannot be listened on; one line names the setting and says why."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Sockets that listen on one host and one port, whatever was asked for."""

    host: str
    port: int
    sockets: list[socket.socket]

    @property
    def place(self) -> str:
        """`host:port` as a URL has it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def close(self) -> None:
        """Listen no more. Idempotent."""
        for one in self.sockets:
            one.close()


def listen(host: str, port: int, ways: str = "--port") -> Listener:
    """Listen on all of `host`'s addresses; port 0 takes one that is free.

    Raises BindFailed, which says by what `ways` another port can be chosen.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "it is no host name"
        raise BindFailed(f"--host: {host} is not known here: {why}") from None
    addresses = list(dict.fromkeys((family, address) for family, _, _, _, address in found))
    tries = TRIES if port == 0 else 1
    while True:
        tries -= 1
        try:
            return _all(host, port, addresses)
        except OSError as error:
            if tries and error.errno == errno.EADDRINUSE:
                continue  # it was free on the first address only
            raise BindFailed(_why(host, port, error, ways)) from None


def _all(
    host: str, port: int, addresses: Iterable[tuple[socket.AddressFamily, tuple[Any, ...]]]
) -> Listener:
    """Listen on each address that there is on this machine, but on one at least."""
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
        # At once: of two that are only bound, both would think that the port is theirs.
        one.listen(BACKLOG)
        one.settimeout(0)
    except BaseException:
        one.close()
        raise
    return one


def _why(host: str, port: int, error: OSError, ways: str) -> str:
    if error.errno in MISSING:
        return f"--host: {host} is no address of this machine"
    known = {errno.EADDRINUSE: "is in use", errno.EACCES: "is for privileged users only"}
    why = known.get(error.errno or 0, f"cannot be listened on: {error.strerror}")
    return f"--port: {port} on {host} {why}; choose another with {ways}"


class OrderlyServer(uvicorn.Server):
    """uvicorn, but after a signal it returns instead of dying of it at the end."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals as uvicorn does, and forget them at the end."""
        with super().capture_signals():
            try:
                yield
            finally:
                self._captured_signals.clear()
