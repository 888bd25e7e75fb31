"""A gateway that measures how long its event loop is held up: `python -m bench.probed_gateway`.

It takes the options of `multilane serve`. Each line on its standard input asks for the longest
stall since the line before, in milliseconds. A stall counts by the clock or by the CPU time of the
process, whichever is less: then a busy machine makes none, and neither does work beside the loop.
"""

from __future__ import annotations

import asyncio
import sys
import time
from threading import Thread
from typing import TYPE_CHECKING

from gateway.cli import main
from gateway.process import server

if TYPE_CHECKING:
    import socket

_TICK = 0.001


class Probe:
    """A timer that notes how late it is."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._loop = asyncio.get_running_loop()
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        self._tick()

    def _tick(self) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        self.longest = max(self.longest, min(wall - self._wall - _TICK, cpu - self._cpu))
        self._wall, self._cpu = wall, cpu
        self._loop.call_later(_TICK, self._tick)

    def answer(self) -> None:
        """Print a figure for each line that comes in, from a thread of its own."""
        for _ in sys.stdin:
            longest, self.longest = self.longest, 0.0
            print(f"{longest * 1000:.1f}", flush=True)


class ProbedServer(server.GatewayServer):
    """The gateway's server with a probe in its loop."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve and to measure."""
        await super().startup(sockets)
        Thread(target=Probe().answer, daemon=True).start()


if __name__ == "__main__":
    server.GatewayServer = ProbedServer  # type: ignore[misc]
    sys.argv[1:1] = ["serve"]
    main()
