"""Bugs planted in the board."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lanes.board import Board, LaneState, LaneStep, _Lane
from tests.machines.bugs import Bugs
from tests.machines.rules import play

if TYPE_CHECKING:
    from lanes.frames import Create

BUGS = Bugs(partial(play, 400))


@BUGS.plant(Board, "_fill")
def one_running_too_many(original: Any) -> Any:
    def fill(self: Board) -> list[Create]:
        self._max_active += 1
        try:
            return list(original(self))
        finally:
            self._max_active -= 1

    return fill


@BUGS.plant(Board, "_check_name")
def one_name_too_many(original: Any) -> Any:
    def check(self: Board, stream_id: str | None) -> None:
        self._max_named += 1
        try:
            original(self, stream_id)
        finally:
            self._max_named -= 1

    return check


@BUGS.plant(Board, "_check_name")
def the_default_lane_counts_as_a_name(original: Any) -> Any:
    def check(self: Board, stream_id: str | None) -> None:
        limit = self._max_named
        self._max_named -= None in self._lanes
        try:
            original(self, stream_id)
        finally:
            self._max_named = limit

    return check


@BUGS.plant(Board, "finish")
def an_idle_lane_gives_its_name_back(original: Any) -> Any:
    def finish(self: Board, stream_id: str | None) -> list[Create]:
        started: list[Create] = original(self, stream_id)
        if self._lanes[stream_id].state is LaneState.IDLE:
            del self._lanes[stream_id]
        return started

    return finish


@BUGS.plant(Board, "_check_room")
def a_refused_create_takes_a_name(original: Any) -> Any:
    def check(self: Board, create: Create) -> None:
        self._lanes.setdefault(create.stream_id, _Lane())
        original(self, create)

    return check


@BUGS.plant(Board, "_fill")
def a_lane_is_last_in_first_out(original: Any) -> Any:
    def fill(self: Board) -> list[Create]:
        for lane in self._ready:
            lane.queue.rotate(1)
        return list(original(self))

    return fill


@BUGS.plant(Board, "_fill")
def the_slot_goes_to_the_lane_ready_last(original: Any) -> Any:
    def fill(self: Board) -> list[Create]:
        self._ready[:] = [*self._ready[-1:], *self._ready[:-1]]
        return list(original(self))

    return fill


@BUGS.plant(Board, "finish")
def a_lane_keeps_its_slot_before_others(original: Any) -> Any:
    def finish(self: Board, stream_id: str | None) -> list[Create]:
        lane = self._lanes.get(stream_id)
        if lane is not None and lane.queue and lane.state is LaneState.RUNNING:
            self._step(lane, LaneStep.NEXT)
            self._active -= 1
            self._ready.insert(0, lane)
            return self._fill()
        return list(original(self, stream_id))

    return finish


@BUGS.plant(Board, "finish")
def a_freed_slot_wakes_nobody(original: Any) -> Any:
    def finish(self: Board, stream_id: str | None) -> list[Create]:
        fill, self._fill = self._fill, list  # type: ignore[method-assign]  # that is the bug
        try:
            return list(original(self, stream_id))
        finally:
            self._fill = fill  # type: ignore[method-assign]  # as above

    return finish


@BUGS.plant(Board, "_step")
def a_running_lane_starts_the_next_too(original: Any) -> Any:
    def step(self: Board, lane: _Lane, move: LaneStep) -> None:
        running = lane.state is LaneState.RUNNING
        original(self, lane, move)
        if running and move is LaneStep.CREATE:
            lane.state = LaneState.READY
            self._ready.append(lane)

    return step


@BUGS.plant(Board, "succeed")
def a_successor_gives_the_slot_away(original: Any) -> Any:
    def succeed(self: Board, stream_id: str | None, successor: Create) -> None:
        original(self, stream_id, successor)
        self._active -= 1

    return succeed


@BUGS.plant(Board, "_fill")
def bytes_that_waited_are_not_released(original: Any) -> Any:
    def fill(self: Board) -> list[Create]:
        before = self._waiting_bytes
        started = list(original(self))
        self._waiting_bytes = before
        return started

    return fill


@BUGS.plant(Board, "_check_room")
def the_queue_is_bounded_in_creates_only(original: Any) -> Any:
    def check(self: Board, create: Create) -> None:
        limit, self._max_queued_bytes = self._max_queued_bytes, 1_000_000
        try:
            original(self, create)
        finally:
            self._max_queued_bytes = limit

    return check


@BUGS.plant(Board, "_check_room")
def the_queue_is_bounded_in_bytes_only(original: Any) -> Any:
    def check(self: Board, create: Create) -> None:
        limit, self._max_queued = self._max_queued, 1_000
        try:
            original(self, create)
        finally:
            self._max_queued = limit

    return check


@BUGS.plant(Board, "submit")
def a_create_that_starts_counts_as_waiting(original: Any) -> Any:
    def submit(self: Board, create: Create) -> list[Create]:
        if not self._closed:
            self._check_name(create.stream_id)
            self._check_room(create)
        return list(original(self, create))

    return submit


@BUGS.plant(Board, "close")
def close_forgets_the_order_of_arrival(original: Any) -> Any:
    def close(self: Board) -> list[Create]:
        return sorted(original(self), key=lambda create: create.stream_id or "")

    return close


@BUGS.plant(Board, "close")
def a_closed_board_starts_what_waited(original: Any) -> Any:
    def close(self: Board) -> list[Create]:
        waiting = [(lane, tuple(lane.queue)) for lane in self._lanes.values()]
        dropped = list(original(self))
        for lane, queue in waiting:
            lane.queue.extend(queue)
        return dropped

    return close


@BUGS.plant(Board, "_check_open")
def a_closed_board_takes_creates(original: Any) -> Any:
    return lambda self: None


@BUGS.plant(Board, "clear")
def a_lane_without_creates_keeps_its_turn(original: Any) -> Any:
    def clear(self: Board, stream_id: str | None) -> list[Create]:
        ready = self._ready.copy()
        taken = list(original(self, stream_id))
        self._ready = ready
        return taken

    return clear


@BUGS.plant(Board, "clear")
def bytes_that_were_taken_back_still_wait(original: Any) -> Any:
    def clear(self: Board, stream_id: str | None) -> list[Create]:
        taken: list[Create] = original(self, stream_id)
        self._waiting_bytes += sum(create.size for create in taken)
        return taken

    return clear


@BUGS.plant(Board, "clear")
def all_lanes_are_cleared(original: Any) -> Any:
    return lambda self, _: [one for lane in self._lanes for one in original(self, lane)]
