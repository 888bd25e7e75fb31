"""`multilane load` against a gateway that keeps its promises."""

from __future__ import annotations

import asyncio
import json
import signal
import sys

import pytest
from anyio import fail_after

from tests.load.calls import numbers, run
from tests.load.stub import Stub, running
from tests.support.hang_guard import HANG


@pytest.mark.parametrize("options", [[], ["--ahead"], ["--rate", "300"], ["--fork-share", "1"]])
async def test_a_right_gateway_passes(stub: Stub, options: list[str]) -> None:
    code, found = await numbers(stub, *options)
    assert (code, found["violations"]["count"], found["errors"]) == (0, 0, {})
    assert found["responses"]["completed"] == found["responses"]["sent"] == 18
    assert found["responses"]["unfinished"] == 0
    assert found["events"] == 18 * 24
    assert found["gap_ms"]["max"] >= found["gap_ms"]["p99"] >= found["gap_ms"]["p50"] >= 0
    assert found["total_ms"]["p50"] >= found["time_to_first_event_ms"]["p50"] >= 0
    assert stub.pongs == 2


async def test_creates_continue_and_fork(stub: Stub) -> None:
    _, found = await numbers(stub, "--model", "m", "--fork-share", "0.5", "--input", "hi")
    owner = {f"resp_{n:032x}": c["stream_id"] for n, c in enumerate(stub.creates, 1)}
    parents = [c for c in stub.creates if "previous_response_id" in c]
    forks = [c for c in parents if owner[c["previous_response_id"]] != c["stream_id"]]
    assert len(parents) >= 12
    assert 0 < len(forks) == found["responses"]["forks"]
    assert {c["model"] for c in stub.creates} == {"m"}
    assert {c["stream_id"] for c in stub.creates} == {"lane-0", "lane-1", "lane-2"}
    assert len({c["input"] for c in stub.creates}) == 18


async def test_the_tables(stub: Stub) -> None:
    result = await run(stub)
    assert result.exit_code == 0
    for words in ("18 completed", "events/s", "time to first delta", "p99", "no violations"):
        assert words in result.output


async def test_a_terminal_sees_the_run_live(stub: Stub) -> None:
    terminal = {"FORCE_COLOR": "1"}
    shown = await run(stub, env=terminal)
    assert "18 done, 0 on their way" in shown.stderr
    assert "18 completed" in shown.stdout
    assert (await run(stub, "--json", env=terminal)).stderr == ""


async def test_errors_are_counted_and_no_violation(stub: Stub) -> None:
    stub.error = {"type": "error", "status": 429, "error": {"code": "too_many", "message": "wait"}}
    code, found = await numbers(stub)
    assert (code, found["errors"], found["violations"]["count"]) == (0, {"too_many": 1}, 0)
    assert found["responses"]["refused"] == 1
    assert found["responses"]["completed"] == 17


async def test_a_refused_continuation_is_followed_by_a_new_chain(stub: Stub) -> None:
    stub.at = 7  # the six lanes have each begun
    stub.error = {"type": "error", "status": 404, "error": {"code": "gone", "message": "gone"}}
    _, found = await numbers(stub, "--fork-share", "0")
    refused = stub.creates[6]
    assert "previous_response_id" in refused
    assert found["errors"] == {"gone": 1}
    assert len([c for c in stub.creates if "previous_response_id" not in c]) == 6 + 1


async def test_fragmented_messages(stub: Stub) -> None:
    stub.fragment = True
    code, found = await numbers(stub)
    assert (code, found["responses"]["completed"]) == (0, 18)


async def test_slow_readers_read_all_and_are_left_out_of_the_timings(stub: Stub) -> None:
    options = ["--slow-readers", "1", "--lanes", "1", "--responses", "1"]
    code, found = await numbers(stub, *options)
    assert (code, found["responses"]["completed"], found["slow_readers"]) == (0, 2, 1)
    code, found = await numbers(Stub(), *options, "--connections", "1")
    assert (code, found["responses"]["completed"], found["total_ms"]["max"]) == (0, 1, None)


async def test_duration_ends_an_endless_run(stub: Stub) -> None:
    code, found = await numbers(stub, "--responses", "0", "--duration", "0.3", "--rate", "50")
    assert code == 0
    assert 5 <= found["responses"]["completed"] == found["responses"]["sent"] < 50


async def test_ctrl_c_prints_the_report_so_far(stub: Stub) -> None:
    code = "from gateway.tools.load.command import load; load()"
    async with running(stub) as url:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", code, url, "--responses", "0", "--json"),
            stdout=asyncio.subprocess.PIPE,
        )
        with fail_after(HANG):
            await stub.busy.wait()
            process.send_signal(signal.SIGINT)
            out, _ = await process.communicate()
    found = json.loads(out)
    assert process.returncode == 130
    assert found["interrupted"]
    assert found["violations"]["count"] == 0
    assert found["responses"]["completed"] > 0
