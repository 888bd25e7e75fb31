"""`python -m tests.fuzz [NAME...]`: fuzz for a while, and keep what fails in the corpus."""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import sys
from typing import TYPE_CHECKING

from tests.fuzz import coverage_led

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(words: Sequence[str] | None = None) -> int:
    """Run the fuzzers one after the other; return 1 if any of them found something."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", help="the fuzzers to run; all of them by default")
    parser.add_argument("--seconds", type=float, default=120.0, help="for each of them")
    parser.add_argument(
        "--atheris", action="store_true", help="be led by coverage, where atheris is installed"
    )
    given = parser.parse_args(words)
    if given.atheris and importlib.util.find_spec("atheris") is None:
        parser.error("atheris is not installed: pip install atheris")
    from tests.fuzz.fuzzers import FUZZERS

    known = [one.name for one in FUZZERS]
    if strangers := set(given.names) - set(known):
        parser.error(f"no fuzzer is called {', '.join(sorted(strangers))}: {', '.join(known)}")
    run = _with_atheris if given.atheris else _with_hypothesis
    found = [name for name in given.names or known if not run(name, given.seconds)]
    return 1 if found else 0


def _with_hypothesis(name: str, seconds: float) -> bool:
    from tests.fuzz.fuzzers import FUZZERS
    from tests.fuzz.fuzzing import Found, fuzz

    (fuzzer,) = (one for one in FUZZERS if one.name == name)
    try:
        count = fuzz(fuzzer, seconds, derandomized=False)
    except Found as found:
        path = fuzzer.keep(found.data)
        print(f"{found}\n  kept as {path}\n  {found.__cause__!r}", file=sys.stderr)  # noqa: T201
        return False
    print(f"{name}: {count} inputs, nothing found", flush=True)  # noqa: T201
    return True


def _with_atheris(name: str, seconds: float) -> bool:
    """Run one fuzzer in a process of its own, which libFuzzer ends by itself."""
    process = multiprocessing.get_context("spawn").Process(
        target=coverage_led.run, args=(name, seconds)
    )
    process.start()
    process.join()
    return process.exitcode == 0


if __name__ == "__main__":
    sys.exit(main())
