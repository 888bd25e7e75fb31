"""What is shown while the load runs and at its end."""

from __future__ import annotations

import io
import json
import time
from typing import Any

import pytest
from rich.console import Console

from gateway.config.settings import flag
from gateway.tools.load.plan import LoadPlan
from gateway.tools.load.report import progress, render, summary
from gateway.tools.load.response_checks import BrokenRule, Rule
from gateway.tools.load.tally import Tally

PLAN = LoadPlan(url="ws://127.0.0.1:1/v1/responses")


@pytest.fixture
def tally() -> Tally:
    tally = Tally(events=1500, size=3_000_000, started=9, open=4)
    tally.statuses.update(completed=6, failed=1, refused=1)
    tally.errors.update({"too_many": 1, "server_error": 1})
    tally.first_event.add(2_000_000)
    tally.began = time.monotonic_ns() - 2_000_000_000
    tally.stop()
    return tally


def shown(numbers: dict[str, Any], *, colours: bool = False) -> str:
    console = Console(file=io.StringIO(), width=80, force_terminal=colours)
    render(console, numbers)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_numbers_add_up(tally: Tally) -> None:
    numbers = summary(PLAN, tally)
    assert numbers["responses"] == {
        "sent": 9,
        "forks": 0,
        "successors": 0,
        "completed": 6,
        "incomplete": 0,
        "failed": 1,
        "refused": 1,
        "unfinished": 1,
    }
    assert numbers["events_per_second"] == pytest.approx(750, rel=0.01)
    assert numbers["megabytes_per_second"] == pytest.approx(1.5, rel=0.01)
    assert numbers["time_to_first_event_ms"]["max"] == 2.0
    assert numbers["gap_ms"] == {"p50": None, "p90": None, "p99": None, "max": None}
    assert json.loads(json.dumps(numbers)) == numbers


def test_a_run_that_never_began_has_numbers_too() -> None:
    assert summary(PLAN, Tally())["events_per_second"] == 0


def test_the_tables_fit_a_terminal(tally: Tally) -> None:
    text = shown(summary(PLAN, tally, interrupted=True))
    for words in ("6 completed", "1 failed", "(interrupted)", "too_many", "not all was answered"):
        assert words in text
    assert max(map(len, text.splitlines())) <= 80


def test_errors_are_no_violation_and_no_good_news(tally: Tally) -> None:
    text = shown(summary(PLAN, tally), colours=True)
    last = "not all was answered: {}; what was answered broke no rule"
    assert text.endswith(f"\x1b[33m{last.format('2 errors')}\x1b[0m\n")
    assert "no violations" not in text
    tally.errors.clear()
    assert shown(summary(PLAN, tally)).endswith("\nno violations\n")
    tally.errors["too_many"] = 1
    assert shown(summary(PLAN, tally)).endswith(last.format("1 error") + "\n")


@pytest.mark.parametrize(
    ("code", "setting"),
    [
        ("websocket_stream_limit_reached", "max_named"),
        ("too_many_queued_responses", "max_queued"),
    ],
)
def test_a_limit_that_refuses_is_named(tally: Tally, code: str, setting: str) -> None:
    option = flag(setting)
    assert option is not None
    assert option not in shown(summary(PLAN, tally))
    tally.errors[code] = 3
    assert f"{code}: more " in shown(summary(PLAN, tally))
    assert option in shown(summary(PLAN, tally))


def test_the_words_of_steers_are_explained(tally: Tally) -> None:
    words = ("successors", "cut", "shown")
    assert not any(f"\n{word}: " in shown(summary(PLAN, tally)) for word in words)
    tally.successors = tally.markers.shown = 2
    tally.steers.update(sent=2, cut=2)
    assert all(f"\n{word}: " in shown(summary(PLAN, tally)) for word in words)


def test_only_the_first_violations_are_kept_and_all_are_counted(tally: Tally) -> None:
    for number in range(20):
        fault = BrokenRule(Rule.TEXT, f"fault [{number}]")
        tally.blame(fault, 0, "lane-1", b'{"type":"x"}' + b" " * 1000)
    numbers = summary(PLAN, tally)
    assert numbers["violations"]["count"] == 20
    assert [one["message"] for one in numbers["violations"]["first"]] == [
        f"fault [{number}]" for number in range(5)
    ]
    assert len(numbers["violations"]["first"][0]["event"]) < 600
    assert "text: fault [4] (connection 0, lane-1)" in shown(numbers)


def test_progress_counts_what_is_on_its_way(tally: Tally) -> None:
    lines = progress(PLAN, tally, 1234.5).plain.splitlines()
    assert lines[0] == PLAN.url
    assert "  responses    8 done, 1 on their way" in lines
    assert "  events/s     1,234" in lines
    assert "  violations   0" in lines
