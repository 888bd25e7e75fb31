"""Commands of the gateway's that a bench runs beside itself, and the memory of one."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROOT: Final = Path(__file__).parents[1]
#: Seconds for a command to start, and for a gateway to come to rest.
REST: Final = 60.0
#: How the commands say that they listen, and on which port.
_LISTENS: Final = re.compile(r"(?:ready http|ws)://127\.0\.0\.1:(\d+)/")


@asynccontextmanager
async def command(log: Path, *words: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """Run a command on a free port, which logs to a file; yields it and the port."""
    with log.open("wb") as out:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway", *words, "--port", "0"),
            cwd=log.parent,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=out,
            stderr=out,
        )
    try:
        async with asyncio.timeout(REST):
            while (port := _port_in(log)) is None:
                assert child.returncode is None, f"{words[0]} ended with {child.returncode}"
                await asyncio.sleep(0.05)
        yield child, port
    finally:
        if child.returncode is None:
            child.terminate()
        await child.wait()


def _port_in(log: Path) -> int | None:
    """Return the port that a command says in its log, once it listens."""
    listens = _LISTENS.search(log.read_text("utf-8"))
    return None if listens is None else int(listens[1])


def memory(pid: int) -> tuple[float, float]:
    """Return a process's memory now, and the most it ever was, in megabytes."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    now, most = (re.search(rf"{name}:\s+(\d+)", status) for name in ("VmRSS", "VmHWM"))
    assert now is not None
    assert most is not None
    return int(now[1]) / 1024, int(most[1]) / 1024
