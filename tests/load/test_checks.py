"""The checks, on right and on broken transcripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from gateway.tools.load.lane_checks import EventMeaning, LaneCheck, ResponseOwners
from gateway.tools.load.response_checks import Rule, SentCreate
from gateway.tools.load.server_events import error_code, read_event
from gateway.tools.load.steer_checks import SentSteers
from tests.load.planted import FAULTS
from tests.load.script import Events, answer, find

if TYPE_CHECKING:
    from collections.abc import Callable

ERROR = {"type": "error", "status": 429, "error": {"code": "too_many", "message": "wait"}}


def feed(lane: LaneCheck, events: Events) -> list[EventMeaning]:
    return [lane.feed(read_event(msgspec.json.encode(event))) for event in events]


def rules(lane: LaneCheck) -> set[Rule]:
    return {fault.rule for fault in lane.faults}


def create(marker: str = "m1", parent: str | None = None, lane: str = "a") -> dict[str, Any]:
    metadata = {"multilane_load": marker}
    return {"stream_id": lane, "previous_response_id": parent, "metadata": metadata}


@pytest.fixture
def lane() -> LaneCheck:
    lane = LaneCheck("a", ResponseOwners(), SentSteers())
    lane.add(SentCreate("m1"))
    return lane


@pytest.mark.parametrize("status", ["completed", "incomplete", "failed"])
def test_a_right_answer_has_no_fault(lane: LaneCheck, status: str) -> None:
    events = answer(create(), status=status)
    steps = feed(lane, events)
    assert lane.faults == []
    assert steps == [EventMeaning.STARTED] + [EventMeaning.WITHIN] * (len(events) - 2) + [
        EventMeaning.ENDED
    ]
    assert lane.unanswered() == []
    assert lane.ended is not None
    assert lane.ended.status == status


@pytest.mark.parametrize(("spoil", "rule"), FAULTS.values(), ids=FAULTS.keys())
def test_a_broken_answer_breaks_its_rule(
    lane: LaneCheck, spoil: Callable[[Events], None], rule: Rule
) -> None:
    events = answer(create())
    spoil(events)
    feed(lane, events)
    assert rule in rules(lane)
    assert lane.unanswered() == []


def test_a_failed_response_may_lack_what_was_cut_off(lane: LaneCheck) -> None:
    events = answer(create(), status="failed")
    del events[find(events, "response.refusal.delta") : -1]
    events[-1]["sequence_number"] = len(events) - 1
    events[-1]["response"]["output"] = events[-1]["response"]["output"][:1]
    feed(lane, events)
    assert lane.faults == []


def test_a_failed_response_keeps_what_it_shows_whole(lane: LaneCheck) -> None:
    events = answer(create(), status="failed")
    events[-1]["response"]["output"][1]["content"][0]["text"] = "mixed"
    feed(lane, events)
    assert rules(lane) == {Rule.TEXT}


def test_lanes_answer_in_the_order_they_were_asked(lane: LaneCheck) -> None:
    feed(lane, answer(create(), 1)[:3])
    lane.add(SentCreate("m2", parent=f"resp_{1:032x}"))
    feed(lane, answer(create(), 1)[3:])
    feed(lane, answer(create("m2", f"resp_{1:032x}"), 2))
    assert lane.faults == []


def test_a_lane_that_overtakes_is_found(lane: LaneCheck) -> None:
    lane.add(SentCreate("m2"))
    feed(lane, answer(create("m2"), 2))
    assert rules(lane) == {Rule.FIFO}


def test_a_response_that_never_ends_is_found_by_the_next(lane: LaneCheck) -> None:
    lane.add(SentCreate("m2"))
    feed(lane, answer(create(), 1)[:-1])
    feed(lane, answer(create("m2"), 2))
    assert rules(lane) == {Rule.UNANSWERED}


def test_a_second_created_is_found(lane: LaneCheck) -> None:
    events = answer(create())
    feed(lane, [events[0], {**events[0], "sequence_number": 1}])
    assert rules(lane) == {Rule.ORDER}


def test_an_error_answers_the_create_that_waits(lane: LaneCheck) -> None:
    assert feed(lane, [ERROR]) == [EventMeaning.REFUSED]
    assert lane.faults == []
    assert lane.unanswered() == []


def test_an_error_behind_a_running_response_refuses_the_waiting_create(lane: LaneCheck) -> None:
    feed(lane, answer(create())[:4])
    lane.add(SentCreate("m2"))
    assert feed(lane, [ERROR]) == [EventMeaning.REFUSED]
    assert lane.refused == SentCreate("m2")
    feed(lane, answer(create())[4:])
    assert lane.faults == []


@pytest.mark.parametrize("before", [0, 4])
def test_an_error_that_answers_nothing_is_a_fault(before: int) -> None:
    lane = LaneCheck("a", ResponseOwners(), SentSteers())
    if before:
        lane.add(SentCreate("m1"))
        feed(lane, answer(create())[:before])
    assert feed(lane, [ERROR]) == [EventMeaning.STRAY]
    assert rules(lane) == {Rule.ORDER}


def test_one_id_on_two_lanes_is_found(lane: LaneCheck) -> None:
    owners = ResponseOwners()
    lanes = [LaneCheck(name, owners, SentSteers()) for name in "ab"]
    for each in lanes:
        each.add(SentCreate("m1"))
        feed(each, answer(create()))
    assert lanes[0].faults == []
    assert rules(lanes[1]) == {Rule.LANE}


def test_owners_forget_the_oldest() -> None:
    owners = ResponseOwners()
    for number in range(5000):
        owners.claim(f"resp_{number}", "a")
    assert owners.claim("resp_4999", "b") == "a"
    assert owners.claim("resp_0", "b") is None


def test_an_event_nobody_asked_for_is_late() -> None:
    lane = LaneCheck("a", ResponseOwners(), SentSteers())
    assert feed(lane, answer(create())[:1]) == [EventMeaning.STRAY]
    assert rules(lane) == {Rule.LATE}


def steered(lane: LaneCheck, number: int = 1) -> Events:
    """A response to m1 that is steered and told so; returns the rest of its events."""
    events = answer(create(), number, status="incomplete")
    events[-1]["response"]["output"].pop()
    events[-1]["response"]["incomplete_details"] = {"reason": "steered"}
    del events[find(events, "response.output_item.added", 2) : -1]
    feed(lane, events[:10])
    assert lane.running is not None
    lane.steers.add("s1", "go on", lane.running, 0)
    accepted = {
        "type": "response.steer.accepted",
        "steer": {"id": "steer_1", "previous_response_id": lane.running.id},
    }
    rest = [accepted, *events[10:]]
    for count, event in enumerate(rest, 10):
        event["sequence_number"] = count
    return rest


@pytest.mark.parametrize("marker", ["m1", None])
def test_a_successor_goes_ahead_of_the_create_that_waits(
    lane: LaneCheck, marker: str | None
) -> None:
    first, successor = f"resp_{1:032x}", answer(create("m1", f"resp_{1:032x}"), 2)
    if marker is None:
        for event in successor[:2]:
            event["response"]["metadata"] = None
    rest = steered(lane)
    lane.add(SentCreate("m2", parent=first))
    feed(lane, rest)
    assert [ask.steer for ask in lane.unanswered()] == ["s1", None]
    feed(lane, successor)
    assert [steer.marker for steer in lane.steers.committed] == ["s1"]
    feed(lane, answer(create("m2", first), 3))
    assert (lane.faults, lane.unanswered()) == ([], [])


def test_a_create_that_overtakes_the_successor_is_found(lane: LaneCheck) -> None:
    first = f"resp_{1:032x}"
    rest = steered(lane)
    lane.add(SentCreate("m2", parent=first))
    feed(lane, rest)
    feed(lane, answer(create("m2", first), 2))
    assert rules(lane) == {Rule.STEER}
    assert lane.unanswered() == []


@pytest.mark.parametrize("echoed", [True, False])
def test_a_fork_of_a_steered_response_is_no_successor(*, echoed: bool) -> None:
    owners, steers, first = ResponseOwners(), SentSteers(), f"resp_{1:032x}"
    lane, other = LaneCheck("a", owners, steers), LaneCheck("b", owners, steers)
    lane.add(SentCreate("m1"))
    feed(lane, steered(lane))
    other.add(SentCreate("m2", parent=first))
    fork = answer({**create("m2", first), "metadata": create("m2")["metadata"] if echoed else None})
    for event in fork:
        if "response" in event:
            event["response"]["id"] = "resp_fork"
    feed(other, fork)
    assert other.faults == []
    assert [ask.steer for ask in lane.unanswered()] == ["s1"]


def test_a_successor_takes_nothing_from_the_creates_that_wait(lane: LaneCheck) -> None:
    feed(lane, steered(lane))
    lane.add(SentCreate("m2", parent="resp_other"))
    feed(lane, answer(create("m1", f"resp_{1:032x}"), 2))
    feed(lane, answer(create("m2", "resp_other"), 3))
    assert (lane.faults, lane.unanswered()) == ([], [])


def test_the_end_of_the_connection_is_a_verdict_on_steers(lane: LaneCheck) -> None:
    feed(lane, steered(lane))
    lane.steers.release()
    lane.drop("connection lost")
    assert lane.faults == []


def test_dropping_names_all_that_is_owed(lane: LaneCheck) -> None:
    feed(lane, answer(create())[:4])
    lane.add(SentCreate("m2"))
    lane.drop("connection lost")
    assert [fault.rule for fault in lane.faults] == [Rule.UNANSWERED] * 2
    assert lane.unanswered() == []


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (ERROR, "too_many"),
        ({"type": "error", "error": {"type": "server_error"}}, "server_error"),
        ({"type": "error", "code": "flat"}, "flat"),
        ({"type": "error"}, "unknown"),
        (
            {"type": "response.failed", "response": {"id": "r", "error": {"code": "cut"}}},
            "cut",
        ),
    ],
)
def test_errors_are_counted_by_code(event: dict[str, Any], code: str) -> None:
    assert error_code(read_event(msgspec.json.encode(event))) == code
