"""Run a bench in this checkout and in another one by turns, and print the ratios.

    python -m bench.compare OTHER [BENCH] [--rounds 9]

OTHER is the root of a checkout with the same bench; its packages are imported there, with this
interpreter. BENCH is `token_path` unless named.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import environment

if TYPE_CHECKING:
    from collections.abc import Sequence

_HERE = Path(__file__).resolve().parents[1]


def once(root: Path, bench: str, options: Sequence[str]) -> dict[str, float]:
    """Run a bench once and return the microseconds of each row that could be measured.

    Args:
        root: The checkout.
        bench: The bench's name.
        options: Its other options.
    """
    command = [sys.executable, "-m", f"bench.{bench}", "--json", *options]
    finished = subprocess.run(
        command,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        check=True,
    )
    rows = json.loads(finished.stdout)["us"]
    return {name: value for name, value in rows.items() if value is not None}


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare two checkouts from the command line."""
    parser = argparse.ArgumentParser(description="Compare a bench in two checkouts, interleaved.")
    parser.add_argument("other", type=Path, help="the root of the other checkout")
    parser.add_argument("bench", nargs="?", default="token_path", help="[token_path]")
    parser.add_argument("--rounds", type=int, default=9, help="runs in each checkout [9]")
    parser.add_argument("--count", type=int, default=20_000, help="events a row and run [20000]")
    options = parser.parse_args(arguments)
    extra = ["--rounds", "1", "--count", str(options.count)]
    before: list[dict[str, float]] = []
    after: list[dict[str, float]] = []
    sides = [(options.other.resolve(), before), (_HERE, after)]
    for _ in range(options.rounds):
        for root, results in sides:
            results.append(once(root, options.bench, extra))
        sides.reverse()  # neither side is always the first
    print(f"{options.bench}: CPU µs an event, medians of {options.rounds} runs\n")
    print(f"  {'':<40}{'other':>8}{'here':>8}{'ratio':>8}")
    for name in after[0]:
        if all(name in run for run in before):
            old = statistics.median(run[name] for run in before)
            new = statistics.median(run[name] for run in after)
            print(f"  {name:<40}{old:8.2f}{new:8.2f}{new / old:8.2f}")
    print("\n" + ", ".join(f"{name} {value}" for name, value in environment().items()))


if __name__ == "__main__":
    main()
