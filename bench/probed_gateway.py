"""A gateway that measures how long its event loop is held up: `python -m bench.probed_gateway`.

It takes the options of `multilane serve`. Each line on its standard input asks for the longest
stall since the line before; the answer is the milliseconds, a blank, and where it was.

A stall is CPU time, so that a busy machine makes none: that of the loop's thread in one turn, or of
one step of another thread, which may hold the interpreter's lock until the step is over. A step is
what comes between two calls or returns, of Python or of C. It may be taken for 1 ms longer than it
is, since a look at the CPU time for each would cost more than the step.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from threading import Thread
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any

from gateway.cli import main
from gateway.process import server

if TYPE_CHECKING:
    import socket
    from types import FrameType

_TICK = 0.001
#: C functions that give the lock away while they work on much.
_UNLOCKED = frozenset({"blake2b", "openssl_sha256", "acquire", "get"})


class Probe:
    """Knows the longest stall."""

    def __init__(self) -> None:
        self._longest, self._where = 0.0, ""

    def note(self, seconds: float, where: str) -> None:
        """Note a stall of so many `seconds`, and `where` it was."""
        if seconds > self._longest:
            self._longest, self._where = seconds, where

    def answer(self) -> None:
        """Print a figure for each line that comes in, from a thread of its own."""
        sys.setprofile(None)
        for _ in sys.stdin:
            longest, where = self._longest, self._where
            self.__init__()  # type: ignore[misc]
            print(f"{longest * 1000:.1f} {where}", flush=True)


class LoopProbe:
    """A timer that notes how much the loop's thread did since it was due before."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._loop = asyncio.get_running_loop()
        self._cpu = thread_time()
        self._tick()

    def _tick(self) -> None:
        self._probe.note(thread_time() - self._cpu, "the event loop")
        self._loop.call_later(_TICK, self._tick)
        self._cpu = thread_time()


class StepProbe(threading.local):
    """Notes the steps of one thread; `profile` goes to `threading.setprofile`."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._looked_at, self._cpu = perf_counter(), thread_time()

    def profile(self, frame: FrameType, event: str, arg: Any) -> None:
        """Note that a step is over: a function begins or ends (see `sys.setprofile`)."""
        if perf_counter() - self._looked_at < _TICK:
            return
        spent = thread_time() - self._cpu
        if event != "c_return" or getattr(arg, "__name__", "") not in _UNLOCKED:
            code = frame.f_code
            self._probe.note(spent, f"{code.co_filename}:{frame.f_lineno} {code.co_name}")
        self._looked_at, self._cpu = perf_counter(), thread_time()


class ProbedServer(server.GatewayServer):
    """The gateway's server with a probe in its loop, and one in each other thread."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve and to measure."""
        await super().startup(sockets)
        probe = Probe()
        threading.setprofile(StepProbe(probe).profile)
        LoopProbe(probe)
        Thread(target=probe.answer, daemon=True).start()


if __name__ == "__main__":
    server.GatewayServer = ProbedServer  # type: ignore[misc]
    sys.argv[1:1] = ["serve"]
    main()
