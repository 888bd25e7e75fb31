"""Failures on request, leaving clients, the pace, and what a parent process relies on."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import pytest

from tests.rehearse.conftest import raised
from tests.support.hang_guard import HANG
from tests.support.rehearsal import WEATHER, Rehearsal, deltas, last, parse

if TYPE_CHECKING:
    from collections.abc import Callable


def eventually(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANG
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_failures_before_the_stream(stand: Rehearsal) -> None:
    for status, words in ((500, "fail before"), (429, "fail 429"), (400, "fail 400")):
        body = {"model": "m", "input": f"Please {words}", "stream": True}
        answer = stand.http.post("/responses", json=body)
        assert answer.status_code == status
        assert answer.json()["error"].keys() == {"message", "type", "param", "code"}
        if status == 429:
            assert answer.headers["retry-after"] == "30"
            assert answer.headers["x-ratelimit-remaining-requests"] == "0"
            assert answer.json()["error"]["code"] == "rate_limit_exceeded"


@pytest.mark.parametrize("reasoning", [None, {"effort": "high", "summary": "auto"}])
def test_a_failure_midway(stand: Rehearsal, reasoning: dict[str, str] | None) -> None:
    events = stand.ask("Please fail midway", judged=False, reasoning=reasoning)
    assert events[-1]["type"] == "response.failed"
    assert last(events)["error"]["code"] == "server_error"
    assert len(deltas(events, "output_text")) == 5


def test_a_failure_midway_of_short_answers(stand: Rehearsal) -> None:
    assert stand.ask("fail midway in 2 words")[-1]["type"] == "response.failed"
    assert stand.ask("use the tool, fail midway", tools=[WEATHER])[-1]["type"] == "response.failed"


def test_a_cut_has_no_terminal_and_no_proper_end(stand: Rehearsal) -> None:
    lines: list[str] = []
    body = {"model": "m", "input": "cut midway", "stream": True}
    with (
        stand.http.stream("POST", "/responses", json=body) as answer,
        pytest.raises(httpx2.RemoteProtocolError),
    ):
        lines.extend(answer.iter_lines())
    events = parse(lines)
    assert events[-1]["type"] == "response.output_text.delta"
    assert len(deltas(events, "output_text")) == 5
    with pytest.raises(httpx2.RemoteProtocolError):
        stand.http.post("/responses", json={**body, "stream": False})


@pytest.mark.parametrize("words", ["stall", "in 1000 words"])
def test_it_stops_when_the_client_leaves(slow: Rehearsal, words: str) -> None:
    before = slow.stats()["cancelled"]
    body = {"model": "m", "input": words, "stream": True}
    wanted = ": keepalive" if words == "stall" else "event: response.output_text.delta"
    with slow.http.stream("POST", "/responses", json=body) as answer:
        lines = answer.iter_lines()
        assert any(line == wanted for line in lines)
        assert slow.stats()["open"] == 1
    eventually(lambda: slow.stats()["cancelled"] == before + 1)
    assert slow.stats()["open"] == 0
    with pytest.raises(httpx2.ReadTimeout):
        slow.http.post("/responses", json={**body, "stream": False}, timeout=0.2)
    eventually(lambda: slow.stats()["cancelled"] == before + 2)
    assert slow.stats()["open"] == 0


def test_as_fast_as_possible_stops_as_well(stand: Rehearsal) -> None:
    before = stand.stats()
    body = {"model": "m", "input": "in 900000 words", "stream": True}
    with stand.http.stream("POST", "/responses", json=body) as answer:
        next(answer.iter_lines())
    eventually(lambda: stand.stats()["cancelled"] == before["cancelled"] + 1)
    assert stand.stats()["open"] == 0
    assert stand.stats()["requests"] == before["requests"] + 1


def test_the_end_of_an_answer_is_no_leaving(stand: Rehearsal) -> None:
    before = stand.stats()["cancelled"]
    stand.ask("hello")
    stand.say("hello")
    assert stand.stats()["cancelled"] == before


def test_the_pace_holds(slow: Rehearsal) -> None:
    """A lower bound only: a loaded machine may be slower, never faster."""
    start = time.monotonic()
    slow.ask("in 10 words")
    assert time.monotonic() - start >= 10 / 20 * 0.98


def test_it_says_what_it_is(stand: Rehearsal) -> None:
    root = stand.url.removesuffix("/v1")
    assert stand.http.get(f"{root}/health").json() == {"status": "ok"}
    models = stand.http.get(f"{root}/any/prefix/v1/models")
    assert [model["id"] for model in models.json()["data"]] == ["rehearse"]
    assert models.headers["server"] == "multilane-rehearse"
    answer = stand.http.post(f"{root}/any/prefix/v1/responses", json={"model": "m", "input": "x"})
    assert answer.status_code == 200
    unknown = stand.http.get(f"{root}/v1/nothing")
    assert unknown.status_code == 404
    assert "Invalid URL" in unknown.json()["error"]["message"]


def test_it_is_small_at_the_start() -> None:
    with raised(0) as stand:
        status = Path(f"/proc/{stand.pid}/status")
        if not status.exists():
            pytest.skip("no /proc here")
        [resident] = [line for line in status.read_text().splitlines() if line.startswith("VmRSS")]
        assert int(resident.split()[1]) <= 45 * 1024


def test_a_stalled_response_does_not_hold_up_the_exit() -> None:
    with raised(0) as stand:
        body = {"model": "m", "input": "stall", "stream": True}
        with stand.http.stream("POST", "/responses", json=body) as answer:
            lines = answer.iter_lines()
            assert next(lines) == ": keepalive"
            os.kill(stand.pid, signal.SIGTERM)
            with pytest.raises(httpx2.RemoteProtocolError):
                list(lines)
        # Ended by the first signal: the second, which `raised` sends, must not find it.
        os.waitid(os.P_PID, stand.pid, os.WEXITED | os.WNOWAIT)
