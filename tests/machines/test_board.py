"""The board, case by case (protocol.md 1, 2)."""

from __future__ import annotations

from itertools import product

import pytest

from lanes.board import TRANSITIONS, Board, LaneState, LaneStep, _Lane
from lanes.errors import ClientFault, IllegalTransition
from lanes.frames import Create


def create(lane: str | None, size: int = 1, name: str = "") -> Create:
    """A create one can tell from others."""
    return Create(lane, {"name": name}, size=size)


@pytest.mark.parametrize(("state", "step"), list(product(LaneState, LaneStep)))
def test_a_lane_moves_by_the_table_and_no_other_way(state: LaneState, step: LaneStep) -> None:
    lane = _Lane(state)
    if (state, step) in TRANSITIONS:
        Board()._step(lane, step)
        assert lane.state is TRANSITIONS[state, step]
    else:
        with pytest.raises(IllegalTransition, match=f"cannot {step} while {state}"):
            Board()._step(lane, step)
        assert lane.state is state


def test_one_lane_runs_in_order_and_never_two_at_once() -> None:
    board = Board()
    first, second, third = (create("a", name=name) for name in "123")
    assert board.submit(first) == [first]
    assert board.submit(second) == board.submit(third) == []
    assert (board.active, board.waiting) == (1, 2)
    assert board.finish("a") == [second]
    assert board.finish("a") == [third]
    assert board.finish("a") == []
    assert board.lanes == {"a": "idle"}


def test_the_default_lane_is_a_lane_like_others() -> None:
    board = Board()
    first, second, other = create(None, name="1"), create(None, name="2"), create("a")
    assert board.submit(first) == [first]
    assert board.submit(second) == []
    assert board.submit(other) == [other]
    assert board.lanes == {None: "running", "a": "running"}
    assert board.finish(None) == [second]


def test_16_run_at_once_and_the_17th_takes_the_next_free_slot() -> None:
    board = Board()
    creates = [create(f"lane-{number}") for number in range(17)]
    assert [board.submit(one) for one in creates] == [[one] for one in creates[:16]] + [[]]
    assert (board.active, board.waiting) == (16, 1)
    assert board.finish("lane-5") == [creates[16]]
    assert board.active == 16


def test_a_slot_goes_to_the_lane_that_is_ready_longest() -> None:
    board = Board(max_active=1)
    again, b, c = create("a", name="again"), create("b"), create("c")
    board.submit(create("a"))
    # `again` came first, but until its lane is free it waits for the lane, not for a slot.
    assert [board.submit(one) for one in (again, b, c)] == [[], [], []]
    assert board.finish("a") == [b]
    assert board.finish("b") == [c]
    assert board.finish("c") == [again]


def test_a_successor_keeps_the_slot_ahead_of_the_queue() -> None:
    board = Board(max_active=1)
    second, other = create("a", name="2"), create("b")
    board.submit(create("a"))
    board.submit(second)
    board.submit(other)
    board.succeed("a", create("a", name="successor"))
    assert board.lanes == {"a": "running", "b": "ready"}
    assert (board.active, board.waiting) == (1, 2)
    assert board.finish("a") == [other]
    assert board.finish("b") == [second]


@pytest.mark.parametrize("lane", ["idle", "ready", "new", None])
def test_only_what_runs_can_end_or_be_succeeded(lane: str | None) -> None:
    board = Board(max_active=1)
    board.submit(create("idle"))
    board.finish("idle")
    board.submit(create("running"))
    board.submit(create("ready"))
    with pytest.raises(IllegalTransition):
        board.finish(lane)
    with pytest.raises(IllegalTransition):
        board.succeed(lane, create(lane))
    assert (board.active, board.waiting) == (1, 1)


def test_a_successor_stays_on_its_lane() -> None:
    board = Board()
    board.submit(create("a"))
    with pytest.raises(IllegalTransition, match="'b' cannot succeed on lane 'a'"):
        board.succeed("a", create("b"))


def test_32_names_fit_and_the_33rd_is_refused_without_a_trace() -> None:
    board = Board(max_active=1)
    for number in range(32):
        board.submit(create(f"lane-{number}"))
    assert board.submit(create(None)) == []
    with pytest.raises(ClientFault, match="at most 32 distinct") as refused:
        board.submit(create("one-more"))
    fault = refused.value
    assert (fault.code, fault.status) == ("websocket_stream_limit_reached", 400)
    assert (fault.type, fault.param) == ("invalid_request_error", "stream_id")
    assert "'one-more'" in fault.message
    assert "one-more" not in board.lanes
    assert board.waiting == 32


def test_names_stay_counted_when_their_lanes_are_idle() -> None:
    board = Board(max_named=1)
    board.submit(create("a"))
    board.finish("a")
    with pytest.raises(ClientFault):
        board.submit(create("b"))
    assert len(board.submit(create("a"))) == 1


def test_too_many_waiting_creates_are_refused() -> None:
    board = Board(max_active=1, max_queued=2)
    for name in ("runs", "waits", "waits too"):
        board.submit(create("a", name=name))
    with pytest.raises(ClientFault, match="at most 2 and") as refused:
        board.submit(create("b"))
    assert (refused.value.code, refused.value.status) == ("too_many_queued_responses", 429)
    assert refused.value.type == "invalid_request_error"
    assert refused.value.param is None
    assert board.lanes == {"a": "running"}
    board.finish("a")
    assert board.submit(create("b")) == []


def test_too_many_waiting_bytes_are_refused_until_some_are_released() -> None:
    board = Board(max_active=1, max_queued_bytes=10)
    board.submit(create("a", size=1000))
    board.submit(create("a", size=6))
    board.submit(create("b", size=4))
    assert board.waiting_bytes == 10
    with pytest.raises(ClientFault, match="10 bytes may wait"):
        board.submit(create("b", size=1))
    board.finish("a")
    assert board.waiting_bytes == 6
    assert board.submit(create("b", size=4)) == []


def test_a_create_that_starts_at_once_does_not_count_as_waiting() -> None:
    board = Board(max_queued=0, max_queued_bytes=0)
    assert len(board.submit(create("a", size=5))) == 1
    assert len(board.submit(create("b", size=5))) == 1
    with pytest.raises(ClientFault):
        board.submit(create("a", size=5))


def test_close_returns_what_waited_in_order_and_starts_nothing_more() -> None:
    board = Board(max_active=1)
    board.submit(create("a"))
    waiting = [create(lane, name=name) for lane, name in ("b1", "a2", "b3", "c4")]
    for one in waiting:
        board.submit(one)
    assert board.close() == waiting
    assert (board.active, board.waiting, board.waiting_bytes) == (1, 0, 0)
    assert board.closed
    assert board.lanes == {"a": "running", "b": "idle", "c": "idle"}
    with pytest.raises(IllegalTransition, match="closed"):
        board.submit(create("a"))
    with pytest.raises(IllegalTransition, match="closed"):
        board.succeed("a", create("a"))
    assert board.finish("a") == []
    assert board.active == 0
    assert board.close() == []


def test_what_waits_on_a_lane_is_taken_back_in_order() -> None:
    board = Board(max_active=1)
    for one in (create("a"), create("b", size=3), first := create("a"), second := create("a")):
        board.submit(one)
    assert board.clear("a") == [first, second]
    assert (board.active, board.waiting, board.waiting_bytes) == (1, 1, 3)
    assert board.lanes == {"a": "running", "b": "ready"}
    assert len(board.finish("a")) == 1


def test_a_lane_that_waits_for_a_slot_gives_up_its_turn() -> None:
    board = Board(max_active=1)
    board.submit(create("a"))
    board.submit(create("b"))
    board.submit(later := create("c"))
    assert len(board.clear("b")) == 1
    assert board.lanes == {"a": "running", "b": "idle", "c": "ready"}
    assert board.finish("a") == [later]


@pytest.mark.parametrize("lane", [None, "new", "idle"])
def test_where_nothing_waits_nothing_is_taken_back(lane: str | None) -> None:
    board = Board()
    board.submit(create("idle"))
    board.finish("idle")
    assert board.clear(lane) == []
    assert "new" not in board.lanes
