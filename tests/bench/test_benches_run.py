"""Every bench runs, prints a figure for each of its rows, and is named in the benches' README."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.hang_guard import HANG

ROOT = Path(__file__).parents[2]
README = (ROOT / "bench" / "README.md").read_text("utf-8")
BENCHES = {
    "chat_conversion": 5,
    "delta_parsing": 3,
    "frame_writes": 6,
    "http_clients": 2,
    "http_face": 4,
    "token_path": 4,
    "websocket_upstream": 9,
}
#: `stalls` has a test of its own.
PARTS = {"__init__", "compare", "hostile_peers", "measure", "pipeline", "probed_gateway", "soak"}
PARTS |= {"breaking_relay", "commands", "given_back", "http_visitors", "stalls", "visits"}
PARTS |= {"crowds", "loopback_certificate", "stalling_frames", "stalling_upstreams"}


def run(module: str, *options: str) -> str:
    command = [sys.executable, "-W", "error", "-m", f"bench.{module}", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=HANG, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.parametrize("bench", BENCHES)
def test_it_measures_every_row(bench: str) -> None:
    rows = json.loads(run(bench, "--json", "--rounds", "1", "--count", "64"))["us"]
    measured = [value for value in rows.values() if value is not None]
    assert len(measured) >= BENCHES[bench]
    assert all(value > 0 for value in measured)
    assert len(measured) == len(rows) or bench == "http_clients"  # rivals may be missing


def test_it_prints_a_table() -> None:
    table = run("delta_parsing", "--rounds", "1", "--count", "64")
    assert table.startswith("D1, one delta of 250 bytes: CPU µs an event, medians of 1 rounds")
    assert "load" in table.splitlines()[-1]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_is_given_back_is_measured() -> None:
    table = run("given_back", "--connections", "2", "--scale", "0.02").splitlines()
    assert [line.split()[0] for line in table[1:5]] == ["none", "plain", "escapes", "base64"]
    for line in table[1:5]:
        after_few, after_all, most = map(float, line.split()[-3:])
        assert 10 < min(after_few, after_all) <= most


def test_two_checkouts_are_compared() -> None:
    table = run("compare", str(ROOT), "delta_parsing", "--rounds", "1", "--count", "64")
    assert len([line for line in table.splitlines() if line.startswith("  ")]) == 4


def test_none_is_forgotten() -> None:
    files = {path.stem for path in (ROOT / "bench").glob("*.py")}
    assert files == BENCHES.keys() | PARTS
    assert [name for name in BENCHES if f"`{name}`" not in README] == []
