"""What a gateway keeps of large creates once their connections are closed (D13).

One connection after the other sends one create and leaves. A row says how much memory the gateway
has after so many of them: it must be that of the start, give or take what the allocator keeps.
Linux only: it reads /proc.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from websockets.asyncio.client import connect

from bench.commands import command, memory
from bench.measure import environment
from bench.stalling_upstreams import short, upstream

if TYPE_CHECKING:
    from collections.abc import Callable

#: What the creates of a row hold, and their size in megabytes.
TEXTS: Final[dict[str, tuple[Callable[[int], str], int]]] = {
    "plain text": (lambda size: "x" * size, 60),
    "escapes": (lambda size: '\\"\n\té' * (size // 9), 15),
    "base64": (lambda size: "QUJD" * (size // 4), 60),
}
#: Connections before those of all rows, so that what is loaded late is loaded.
_FIRST: Final = 10


async def _create(port: int, text: str, *, generate: bool) -> None:
    """Send one create on a connection of its own, wait for its end, and leave."""
    url = f"ws://127.0.0.1:{port}/v1/responses"
    async with connect(url, max_size=None, compression=None) as socket:
        create = {"type": "response.create", "model": "m", "input": text, "store": False}
        await socket.send(json.dumps({**create, "generate": generate}))
        async for frame in socket:
            kind = json.loads(frame)["type"]
            if kind in ("error", "response.completed", "response.incomplete", "response.failed"):
                break


async def _measure(connections: int, scale: float) -> None:
    with tempfile.TemporaryDirectory(prefix="multilane-given-back-") as where:
        async with upstream("http", short("openai")) as asked:
            options = (*asked, "--dialect", "openai", "--redis-url", "memory")
            async with command(Path(where) / "gateway.log", "serve", *options) as (child, port):
                for _ in range(_FIRST):
                    await _create(port, "hi", generate=True)
                await _rows(port, child.pid, connections, scale)


async def _rows(port: int, pid: int, connections: int, scale: float) -> None:
    """Print a row for each text.

    Args:
        port: The gateway's.
        pid: The gateway's.
        connections: How many creates a row has.
        scale: What to multiply their sizes by.
    """
    start, _ = memory(pid)
    print(f"{'creates':16}{'MB each':>9}{'after 12':>10}{'after all':>11}{'most':>9}  MB")
    print(f"{'none':16}{'':9}{start:10.1f}{start:11.1f}{memory(pid)[1]:9.1f}")
    for name, (make, megabytes) in TEXTS.items():
        text = make(int(megabytes * scale * 1_000_000))
        after_few = start
        for number in range(connections):
            await _create(port, text, generate=number % 2 == 1)
            if number + 1 == min(12, connections):
                await asyncio.sleep(0.5)
                after_few, _ = memory(pid)
        await asyncio.sleep(0.5)
        after_all, most = memory(pid)
        size = megabytes * scale
        print(f"{name:16}{size:9.1f}{after_few:10.1f}{after_all:11.1f}{most:9.1f}", flush=True)


def main() -> None:
    """Run the bench from the command line."""
    parser = argparse.ArgumentParser(prog="bench.given_back", description=__doc__)
    parser.add_argument("--connections", type=int, default=200, help="creates of each row")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies their sizes")
    given = parser.parse_args()
    asyncio.run(_measure(given.connections, given.scale))
    print(environment())


if __name__ == "__main__":
    main()
