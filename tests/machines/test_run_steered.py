"""A steer whose boundary the upstream finds: it ends the run, or the run does after all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lanes.codec import encode
from lanes.stream.run_states import RunState
from tests.machines.backend import added, completed, created, delta, message
from tests.machines.drive import start

if TYPE_CHECKING:
    from lanes.stream.run import Run

STEERED = {"status": "incomplete", "incomplete_details": {"reason": "steered"}}


def talking() -> tuple[Run, list[dict[str, Any]]]:
    """A run in the middle of a message."""
    run, sent = start()
    for event in (created(), added(message()), delta("abc")):
        run.receive(None, encode(event))
    return run, sent


def say(run: Run, event: dict[str, Any]) -> None:
    run.receive(None, encode(event))


def stopped(run: Run) -> None:
    say(run, {"type": "response.incomplete", "response": STEERED})


def text(sent: list[dict[str, Any]]) -> str:
    streamed: str = sent[-1]["response"]["output"][0]["content"][0]["text"]
    return streamed


def test_the_upstream_finds_the_boundary() -> None:
    run, sent = talking()
    run.cut(here=False)
    assert run.state is RunState.CUTTING
    say(run, delta("def"))
    assert not run.over
    stopped(run)
    assert (run.state, run.stopped) == (RunState.STEERED, False)
    assert sent[-1]["type"] == "response.incomplete"
    assert sent[-1]["response"]["incomplete_details"] == {"reason": "steered"}
    assert text(sent) == "abcdef"
    [entry] = run.entries()
    assert b"abcdef" in entry.data


def test_it_may_finish_first() -> None:
    run, sent = talking()
    run.cut(here=False)
    say(run, completed())
    assert (run.state, run.stopped) == (RunState.COMPLETED, False)
    assert sent[-1]["response"]["incomplete_details"] is None


@pytest.mark.parametrize("first", [True, False])
def test_the_upstream_does_not_take_it_after_all(first: bool) -> None:
    run, sent = talking()
    if first:
        run.cut(here=False)
    run.cut()
    assert (run.state, run.stopped) == (RunState.STEERED, True)
    assert text(sent) == "abc"
    stopped(run)
    assert sum(event["type"] == "response.incomplete" for event in sent) == 1


def test_cut_here_within_what_cannot_be_cut() -> None:
    """Then whoever comes first: the upstream's end is as good as our own boundary."""
    run, _ = start()
    say(run, created())
    sealed = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e"}
    say(run, added(sealed))
    run.cut(here=False)
    run.cut()
    assert run.state is RunState.CUTTING
    stopped(run)
    assert (run.state, run.stopped) == (RunState.STEERED, False)


def test_an_upstream_that_was_not_steered_here() -> None:
    """The client would wait for a successor that nobody makes."""
    run, sent = talking()
    stopped(run)
    assert run.state is RunState.INCOMPLETE
    assert sent[-1]["response"]["incomplete_details"] == {"reason": None}


def test_a_lane_in_its_deltas_costs_nothing() -> None:
    """The upstream's `stream_id` is part of what is quickly read, and goes no further."""
    run, sent = talking()
    say(run, {**delta("def"), "stream_id": "lane3", "sequence_number": 9})
    assert sent[-1]["delta"] == "def"
    assert "stream_id" not in sent[-1]
    say(run, {"type": "response.new", "stream_id": "lane3", "x": 1})
    assert sent[-1] == {"type": "response.new", "x": 1, "sequence_number": len(sent) - 1}
