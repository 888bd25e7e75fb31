"""The image's health check: `python healthcheck.py [PID]` asks a gateway whether it is ready.

It finds the port by itself, whether a flag, a variable or multilane.toml has set it: it is one on
which process PID (1), or one that came from it, listens. With or without TLS, on any address. It
needs no package, so that it costs little every few seconds. Exit code 0: a port answers /ready, or
where there is none /health, by 200, and no port by 503, as that of a gateway does that drains.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
import sys
from pathlib import Path

PROC = Path("/proc")
LISTEN = "0A"
# Without its store a gateway still serves what needs none.
READY = "/ready?exclude=store"
SECONDS = 1.0


def family(root: int) -> set[int]:
    """Return a process and all that came from it."""
    parents: dict[int, int] = {}
    for stat in PROC.glob("[0-9]*/stat"):
        try:
            # The name in brackets may hold anything; state and parent follow it.
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has just ended
            continue
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def listening(root: int) -> set[tuple[str, int]]:
    """Return where these processes listen: addresses that can be connected to, and ports."""
    inodes = set()
    for pid in family(root):
        try:
            for link in (PROC / str(pid) / "fd").iterdir():
                inodes.update(re.findall(r"^socket:\[(\d+)\]$", os.readlink(link)))
        except OSError:
            continue
    places = set()
    for table in (PROC / "net" / "tcp", PROC / "net" / "tcp6"):
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            fields = line.split()
            if fields[3] == LISTEN and fields[9] in inodes:
                address, _, port = fields[1].partition(":")
                places.add((readable(address), int(port, 16)))
    return places


def readable(digits: str) -> str:
    """Return an address of /proc/net/tcp or tcp6, and loopback in place of every address."""
    words = [bytes.fromhex(digits[at : at + 8]) for at in range(0, len(digits), 8)]
    packed = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    text = socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(text, text)


def status(place: tuple[str, int], path: str, *, tls: bool = False) -> int | None:
    """Return the status of the answer from there, or None if there is none.

    Args:
        place: Address and port.
        path: What is asked for.
        tls: Whether to ask by TLS.
    """
    try:
        with socket.create_connection(place, SECONDS) as peer:
            wire = peer
            if tls:
                # It is this gateway whatever its certificate says.
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                wire = context.wrap_socket(peer)
            with wire:
                wire.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
                found = re.match(rb"HTTP/1\.\d (\d{3})", wire.recv(100))
    except OSError:
        return None
    return int(found[1]) if found else None


def state(place: tuple[str, int]) -> int | None:
    """Return what a port says of its gateway."""
    for tls in (False, True):
        ready = status(place, READY, tls=tls)
        # 400: where TLS is spoken, that is said in plain text.
        if ready is not None and (tls or ready != 400):
            return status(place, "/health", tls=tls) if ready == 404 else ready
    return None


def healthy(root: int) -> bool:
    """Return whether the gateway takes requests."""
    seen = {state(one) for one in listening(root)}
    return 200 in seen and 503 not in seen


if __name__ == "__main__":
    sys.exit(not healthy(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
