"""The soak runs, and finds what it is there to find."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.hostile_peers import PEERS
from bench.http_visitors import VISITORS
from bench.soak import Round, faults
from bench.visits import Visits

ROOT = Path(__file__).parents[2]


def test_a_short_one_finds_nothing() -> None:
    """Its second round is measured as its thirtieth would be; slack is for what is loaded late."""
    command = [sys.executable, "-W", "error", "-m", "bench.soak"]
    options = ["--minutes", "0.03", "--round", "2", "--slack-megabytes", "60"]
    done = subprocess.run(
        [*command, *options], cwd=ROOT, capture_output=True, timeout=200, check=False, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    headings, first, *_, visited, verdict = done.stdout.splitlines()
    assert len(headings.split()) == len(first.split()) + 2  # two headings have a unit
    assert int(first.split()[4]) > 0
    assert verdict == "no violations, and nothing kept"
    names = set(re.findall(r"\d+ (\w+)", visited))
    assert names == {visit.__name__ for visit in (*PEERS, *VISITORS)}


def measured(
    megabytes: float = 80, files: int = 20, violations: int = 0, wrong: tuple[str, ...] = ()
) -> Round:
    load: dict[str, Any] = {"violations": {"count": violations}}
    return Round(megabytes, megabytes, files, load, Visits(wrong=list(wrong)))


@pytest.mark.parametrize(
    ("last", "fault"),
    [
        (measured(), None),
        (measured(megabytes=90, files=25), None),
        (measured(megabytes=92), "memory went from 80.0 to 92.0 MB"),
        (measured(files=27), "descriptors went from 20 to 27"),
        (measured(violations=2), "2 answers broke the protocol"),
        (measured(violations=2, wrong=("chain: 500",)), "3 answers broke the protocol"),
    ],
)
def test_the_last_round_is_compared_with_the_fifth(last: Round, fault: str | None) -> None:
    rounds = [measured(megabytes=50, files=5)] * 4 + [measured()] * 3
    assert faults([*rounds, last], 11, 6) == ([] if fault is None else [fault])
