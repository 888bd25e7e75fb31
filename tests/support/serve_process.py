"""`multilane serve` as a process of its own."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from tests.support.hang_guard import HANG
from tests.support.upstream import ScriptedUpstream, upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from tests.support.exchange import Exchange

ROOT = __file__.rpartition("/tests/")[0]


@dataclass
class Process:
    fake: ScriptedUpstream
    port: int
    child: subprocess.Popen[bytes]
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def resident(self) -> int:
        """Bytes of memory in use."""
        return self._status("VmRSS")

    @property
    def peak(self) -> int:
        """The most there ever were."""
        return self._status("VmHWM")

    def _status(self, name: str) -> int:
        status = Path(f"/proc/{self.child.pid}/status").read_text("ascii")
        found = re.search(rf"{name}:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024

    async def ends(self, within: float = HANG) -> str:
        """It ends by itself with exit code 0, and nothing went wrong; what it logged."""
        with anyio.fail_after(within):
            await anyio.to_thread.run_sync(self.child.wait, abandon_on_cancel=True)
        text = self.log.read_text("utf-8")
        assert self.child.returncode == 0, text
        assert "Traceback" not in text, text
        assert "ERROR" not in text, text
        return text

    async def says(self, words: str) -> str:
        """Wait for a line with these words in its log, and return the last one."""
        with anyio.fail_after(HANG):
            while True:
                lines = [one for one in self.log.read_text("utf-8").splitlines() if words in one]
                if lines:
                    return lines[-1]
                await anyio.sleep(0.02)


@asynccontextmanager
async def process(
    where: Path,
    *options: str,
    script: Callable[[Exchange], Any] | None = None,
    config: Callable[[str], str] | None = None,
) -> AsyncIterator[Process]:
    """`multilane serve` on a free port, in front of a scripted upstream.

    `config` makes a multilane.toml that names the upstream from its base URL.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with upstream(script) as fake:
        words = ["serve", "--port", str(port), *options]
        if config is None:
            words += ["--upstream", fake.url, "--dialect", "openai"]
        else:
            (where / "multilane.toml").write_text(config(fake.url), "utf-8")
        log = where / f"{port}.log"
        with _spawned(where, words, log) as child:
            await _listening(port)
            yield Process(fake, port, child, log)


@contextmanager
def _spawned(where: Path, words: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a gateway whose log is a file: a full pipe that nobody reads would hold it up."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MULTILANE_")}
    with (
        log.open("wb") as file,
        subprocess.Popen(
            [sys.executable, "-m", "gateway", *words],
            cwd=where,
            # Each has an engine of its own: another test's would end with that test.
            env=environment | {"PYTHONPATH": ROOT, "MULTILANE_STATE_DIR": str(where / "s")},
            stderr=file,
        ) as child,
    ):
        try:
            yield child
        finally:
            if child.poll() is None:
                child.kill()
                sys.stderr.write(log.read_text("utf-8"))


async def _listening(port: int) -> None:
    with anyio.fail_after(HANG):
        while True:
            try:
                stream = await anyio.connect_tcp("127.0.0.1", port)
            except OSError:
                await anyio.sleep(0.02)
            else:
                await stream.aclose()
                return
