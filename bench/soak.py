"""A gateway among hostile peers for many minutes: does it answer rightly, and give all back?

Each minute is a round: `multilane load` checks every answer on its sockets and the clients of
`http_visitors` check theirs, while the peers of `hostile_peers` come and go and connections to the
backend break. Then all leave, and the gateway at rest is measured: memory and descriptors of the
last round must not be above those of an early one by more than a slack.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

from bench.breaking_relay import Relay
from bench.commands import REST, ROOT, command, memory
from bench.visits import Visits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

#: The round that later ones are compared with: by then all that is loaded lazily is loaded.
_EARLY = 5
#: Seconds of a round besides its load: all leave, and the gateway comes to rest.
_PAUSE = 15.0
#: Wrong answers of a round to show.
_SHOWN = 5
#: Characters of a log to show.
_LOG_END = 16000


@dataclass(slots=True)
class Round:
    """The gateway at rest after a round, and what happened in it."""

    megabytes: float
    peak: float
    descriptors: int
    load: dict[str, Any]
    visits: Visits = field(default_factory=Visits)
    breaks: int = 0

    @property
    def violations(self) -> int:
        """How many answers broke the protocol, on sockets and over HTTP."""
        count: int = self.load["violations"]["count"]
        return count + len(self.visits.wrong)

    def row(self, number: int) -> str:
        """Return the round's line of the table."""
        responses = self.load["responses"]
        cells = (
            number,
            f"{self.megabytes:.1f}",
            f"{self.peak:.1f}",
            self.descriptors,
            responses["sent"],
            self.load["steers"]["sent"],
            self.violations,
            sum(self.load["errors"].values()),
            self.breaks,
            sum(self.visits.counts.values()),
        )
        return "".join(f"{cell:>10}" for cell in cells)


_HEADINGS = (
    "round",
    "RSS MB",
    "peak MB",
    "files",
    "responses",
    "steers",
    "violated",
    "errors",
    "breaks",
    "visits",
)


class Soak:
    """One gateway, its backend, and the rounds."""

    def __init__(self, where: Path, seconds: float) -> None:
        self._log = where / "gateway.log"
        self._seconds = seconds

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Soak]:
        """Start all processes; in the end the gateway must stop in order, without a traceback."""
        rehearse = ("rehearse", "--rate", "200")
        limits = ("--stall-timeout", "5", "--state-dir", str(self._log.parent / "state"))
        async with AsyncExitStack() as stack:
            backend = command(self._log.with_name("rehearse.log"), *rehearse)
            _, port = await stack.enter_async_context(backend)
            self._relay = Relay(port)
            between = await asyncio.start_server(self._relay.serve, "127.0.0.1", 0)
            stack.callback(between.close)
            upstream = f"http://127.0.0.1:{between.sockets[0].getsockname()[1]}/v1"
            serve = ("serve", "--upstream", upstream, "--model", "rehearse")
            served = command(self._log, *serve, *limits)
            self._child, self._port = await stack.enter_async_context(served)
            yield self
            self._child.terminate()
            code, log = await self._child.wait(), self._log.read_text("utf-8")
            assert code == 0, f"the gateway ended with {code}: {log[-_LOG_END:]}"
            broken = log.find("Traceback")
            assert broken < 0, log[broken : broken + _LOG_END]

    async def round(self) -> Round:
        """Have everybody come for a while; measure once they have left."""
        visits = Visits()
        before = self._relay.breaks
        tasks = [asyncio.create_task(self._relay.breaking()), *visits.peers(self._port)]
        try:
            load = await self._load()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            assert task.cancelled(), task.exception()
        await self._rest()
        megabytes, peak = memory(self._child.pid)
        files = len(os.listdir(f"/proc/{self._child.pid}/fd"))
        return Round(megabytes, peak, files, load, visits, self._relay.breaks - before)

    async def _load(self) -> dict[str, Any]:
        """Run `multilane load` for a round; its numbers."""
        shares = ("--fork-share", "0.2", "--steer-share", "0.2", "--slow-readers", "1", "--ahead")
        size = ("--connections", "4", "--lanes", "6", "--responses", "0", "--timeout", "120")
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway", "load", f"ws://127.0.0.1:{self._port}"),
            *(*shares, *size, "--duration", str(self._seconds), "--json"),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await child.communicate()
        assert child.returncode in (0, 1), f"multilane load ended with {child.returncode}"
        numbers: dict[str, Any] = json.loads(out)
        return numbers

    async def _rest(self) -> None:
        """Wait until no connection is left, and what each had to do is done."""
        async with asyncio.timeout(REST):
            while not self._rests():  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.2)
        await asyncio.sleep(1)

    def _rests(self) -> bool:
        health = self._health()
        return not health["connections"] and not health["http_responses"]

    def _health(self) -> dict[str, Any]:
        with urlopen(f"http://127.0.0.1:{self._port}/health", timeout=REST) as answer:
            health: dict[str, Any] = json.load(answer)
            return health


def faults(rounds: list[Round], slack_megabytes: float, slack_files: int) -> list[str]:
    """Return what is wrong with these rounds.

    Args:
        rounds: All of them, in order.
        slack_megabytes: How far the last may be above the early one.
        slack_files: The same for descriptors.
    """
    early, last = rounds[min(_EARLY, len(rounds)) - 1], rounds[-1]
    wrong = []
    if violations := sum(one.violations for one in rounds):
        wrong.append(f"{violations} answers broke the protocol")
    if last.megabytes > early.megabytes + slack_megabytes:
        wrong.append(f"memory went from {early.megabytes:.1f} to {last.megabytes:.1f} MB")
    if last.descriptors > early.descriptors + slack_files:
        wrong.append(f"descriptors went from {early.descriptors} to {last.descriptors}")
    return wrong


async def _run(minutes: float, seconds: float, slack_megabytes: float, slack_files: int) -> int:
    rounds: list[Round] = []
    print("".join(f"{heading:>10}" for heading in _HEADINGS), flush=True)
    with tempfile.TemporaryDirectory(prefix="multilane-soak-") as where:
        async with Soak(Path(where), seconds).running() as soak:
            start, period = time.monotonic(), seconds + _PAUSE
            while not rounds or period * len(rounds) < 60 * minutes:
                await asyncio.sleep(start + period * len(rounds) - time.monotonic())
                rounds.append(await soak.round())
                print(rounds[-1].row(len(rounds)), flush=True)
                for wrong_answer in rounds[-1].visits.wrong[:_SHOWN]:
                    print(f"  {wrong_answer}", flush=True)
    visited = sum((Counter(one.visits.counts) for one in rounds), Counter[str]())
    print(", ".join(f"{count} {name}" for name, count in sorted(visited.items())))
    wrong = faults(rounds, slack_megabytes, slack_files)
    print("\n".join(wrong) or "no violations, and nothing kept")
    return 1 if wrong else 0


def main() -> int:
    """Run the soak from the command line; return its exit code."""
    parser = argparse.ArgumentParser(prog="bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument(
        "--round", type=float, default=45, help="seconds of load in a round, which takes 15 more"
    )
    parser.add_argument("--slack-megabytes", type=float, default=16)
    parser.add_argument("--slack-files", type=int, default=16)
    given = parser.parse_args()
    return asyncio.run(_run(given.minutes, given.round, given.slack_megabytes, given.slack_files))


if __name__ == "__main__":
    sys.exit(main())
