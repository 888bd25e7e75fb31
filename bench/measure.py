"""Interleaved rounds of several cases, their medians, and the command line of all benches."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import sysconfig
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

#: Steps between two turns of the event loop; the turns are not measured.
_STEPS_A_TURN = 100


@dataclass(frozen=True, slots=True)
class Case:
    """One row of a table.

    `measure` handles that number of events and returns the CPU microseconds of one, or None where
    the case cannot run here; then `note` says why.
    """

    name: str
    measure: Callable[[int], Awaitable[float | None]]
    note: str = ""


def stepping(
    name: str,
    step: Callable[[], object],
    events: int = 1,
    fresh: Callable[[], object] | None = None,
) -> Case:
    """Return the case of a synchronous step.

    Args:
        name: The row's name.
        step: What is measured.
        events: How many events one step handles.
        fresh: Called before each round, outside of the measurement.
    """

    async def measure(count: int) -> float:
        if fresh is not None:
            fresh()
        steps, spent = max(1, count // events), 0
        for start in range(0, steps, _STEPS_A_TURN):
            turn = range(start, min(start + _STEPS_A_TURN, steps))
            started = time.thread_time_ns()
            for _ in turn:
                step()
            spent += time.thread_time_ns() - started
            await asyncio.sleep(0)
        return spent / 1000 / (steps * events)

    return Case(name, measure)


def missing(name: str, package: str) -> Case:
    """Return the case of a package that is not installed."""

    async def measure(_: int) -> None:
        return None

    return Case(name, measure, f"{package} is not installed")


async def medians(cases: Sequence[Case], rounds: int, count: int) -> dict[str, float | None]:
    """Measure all cases in turn, round by round, and return the median of each.

    Args:
        cases: The rows.
        rounds: How often each is measured, after one round to warm up.
        count: Events a case and round.
    """
    measured: dict[str, list[float]] = {case.name: [] for case in cases}
    for case in cases:
        await case.measure(max(1, count // 10))
    for _ in range(rounds):
        for case in cases:
            value = await case.measure(count)
            if value is not None:
                measured[case.name].append(value)
    return {
        name: statistics.median(values) if values else None for name, values in measured.items()
    }


def environment() -> dict[str, Any]:
    """Return what the figures depend on besides the code: the Python build, the machine's load."""
    arguments = sysconfig.get_config_var("CONFIG_ARGS") or ""
    return {
        "python": platform.python_version(),
        "optimised": "--enable-optimizations" in arguments,
        "machine": platform.machine(),
        "load": [round(value, 2) for value in os.getloadavg()],
    }


def main(
    title: str,
    build: Callable[[AsyncExitStack], Awaitable[Sequence[Case]]],
    *,
    count: int = 20_000,
    arguments: Sequence[str] | None = None,
) -> None:
    """Run a bench from the command line and print its table, or JSON with `--json`.

    Args:
        title: The head of the table.
        build: Makes the cases; what it puts on the stack is closed after the last round.
        count: The default number of events a case and round.
        arguments: The command line, by default that of the process.
    """
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--rounds", type=int, default=7, help="rounds of every row [7]")
    parser.add_argument(
        "--count", type=int, default=count, help=f"events a row and round [{count}]"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)

    async def run() -> tuple[Sequence[Case], dict[str, float | None]]:
        async with AsyncExitStack() as stack:
            cases = await build(stack)
            return cases, await medians(cases, options.rounds, options.count)

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        cases, results = runner.run(run())
    if options.json:
        rows = {name: None if value is None else round(value, 3) for name, value in results.items()}
        print(json.dumps({"title": title, "us": rows, **environment()}))
        return
    print(f"{title}: CPU µs an event, medians of {options.rounds} rounds\n")
    width = max(len(case.name) for case in cases)
    for case in cases:
        value = results[case.name]
        print(f"  {case.name:<{width}}  {f'{value:8.2f}' if value is not None else case.note}")
    print("\n" + ", ".join(f"{name} {value}" for name, value in environment().items()))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the gateway's event loop, None for asyncio's own."""
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop
