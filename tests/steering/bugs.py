"""Bugs planted in how steers are taken in, bound, told of and written down."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lanes import worker
from lanes.attempt import Attempt
from lanes.board import Board
from lanes.starting import StartGate
from lanes.stream.items import Item
from lanes.stream.output import Output
from lanes.stream.run import Run
from lanes.stream.run_states import RunState
from lanes.worker import Worker
from steering import desk, ledger
from steering.clerk import Clerk
from steering.desk import Desk
from steering.errors import StoreUnavailable
from steering.frames import failed, pending
from steering.ledger import Ledger
from steering.states import SubmissionState as Submitted
from steering.targets import Target, TargetPhase
from tests.machines.bugs import Bugs
from tests.steering.rules import play

if TYPE_CHECKING:
    from steering.targets import Submission

BUGS = Bugs(partial(play, 250))


def _nothing(*_: object, **__: object) -> None:
    """Instead of what should be done."""


@BUGS.plant(Desk, "_hold")
def pending_is_told_again(original: Any) -> Any:
    def hold(self: Desk, target: Target) -> None:
        original(self, target)
        for submission in target.waiting:
            target.send(pending(submission, target.required))

    return hold


@BUGS.plant(Desk, "_hold")
def pending_is_told_though_the_outputs_are_here(original: Any) -> Any:
    def hold(self: Desk, target: Target) -> None:
        target.answered = lambda: False
        original(self, target)

    return hold


@BUGS.plant(Desk, "_hold")
def pending_is_not_written_down(original: Any) -> Any:
    def hold(self: Desk, target: Target) -> None:
        self._ledger.hold(target)

    return hold


@BUGS.plant(Ledger, "bind")
def steers_are_bound_backwards(original: Any) -> Any:
    return lambda self, target: original(self, target)[::-1]


@BUGS.plant(Ledger, "bind")
def only_the_first_steer_is_bound(original: Any) -> Any:
    def bind(self: Ledger, target: Target) -> Any:
        bound = original(self, target)
        for submission in bound[1:]:
            submission.state = Submitted.ACCEPTED
        return bound[:1]

    return bind


@BUGS.plant(ledger, "_check_open")
def steers_are_accepted_after_the_last_chance(original: Any) -> Any:
    return _nothing


@BUGS.plant(Desk, "_append")
def what_was_not_written_is_accepted(original: Any) -> Any:
    async def append(self: Desk, submission: Submission) -> None:
        await original(self, submission)

    return append


@BUGS.plant(Desk, "_answered")
def nobody_waits_for_a_record(original: Any) -> Any:
    async def answered(self: Desk, *_: object, **__: object) -> None:
        """At once."""

    return answered


@BUGS.plant(Desk, "_waiting")
def forks_take_the_steers(original: Any) -> Any:
    def waiting(self: Desk, response_id: str | None, lane: str | None) -> Any:
        target = self._ledger.find(response_id or "")
        return original(self, response_id, lane if target is None else target.lane)

    return waiting


@BUGS.plant(Desk, "_waiting")
def a_create_leaves_the_steers(original: Any) -> Any:
    return _nothing


@BUGS.plant(Desk, "_waiting")
def every_create_takes_the_steers(original: Any) -> Any:
    def waiting(self: Desk, response_id: str | None, lane: str | None) -> Any:
        targets = [t for t in self._ledger._targets.values() if t.phase is TargetPhase.WAITING]
        mine = [t.id for t in targets if t.lane == lane]
        return original(self, mine[0] if mine else response_id, lane)

    return waiting


@BUGS.plant(Desk, "commit")
def a_commit_is_not_written_down(original: Any) -> Any:
    return lambda self, bound, successor: [self._ledger.commit(one) for one in bound]


@BUGS.plant(Desk, "commit")
def a_commit_names_no_successor(original: Any) -> Any:
    return lambda self, bound, successor: original(self, bound, None)


@BUGS.plant(Desk, "fail")
def a_refused_successor_swallows_its_steers(original: Any) -> Any:
    return _nothing


@BUGS.plant(Desk, "fail_target")
def a_failed_parent_swallows_its_steers(original: Any) -> Any:
    return _nothing


@BUGS.plant(desk, "failed")
def another_input_comes_back(original: Any) -> Any:
    def told(fault: Any, target: Any, value: Any, steer_id: Any = None) -> Any:
        typed = [{"type": "message", **one} for one in value] if isinstance(value, list) else value
        return failed(fault, target, typed, steer_id)

    return told


@BUGS.plant(Desk, "close")
def what_is_dropped_is_not_written_down(original: Any) -> Any:
    return lambda self: self._ledger.drop()


@BUGS.plant(Clerk, "run")
def a_verdict_is_written_once_or_never(original: Any) -> Any:
    async def run(self: Clerk) -> None:
        settle = self._store.settle

        async def once(*args: Any, **kept: Any) -> None:
            try:
                await settle(*args, **kept)
            except StoreUnavailable:
                return

        self._store.settle = once  # type: ignore[method-assign]  # that is the bug
        await original(self)

    return run


@BUGS.plant(Desk, "open")
def steers_are_numbered_by_themselves(original: Any) -> Any:
    def opened(self: Desk, target: Target) -> None:
        target.send = self._reply
        original(self, target)

    return opened


@BUGS.plant(Ledger, "find")
def the_latest_response_is_steered(original: Any) -> Any:
    return lambda self, _: next(reversed(self._targets.values()), None)


@BUGS.plant(Output, "can_stop")
def everything_is_cut(original: Any) -> Any:
    return lambda self: True


@BUGS.plant(Output, "can_stop")
def nothing_is_cut(original: Any) -> Any:
    return lambda self: False


@BUGS.plant(Output, "owed")
def finished_calls_do_not_count(original: Any) -> Any:
    return lambda self: []


@BUGS.plant(Item, "cuttable")
def sealed_reasoning_is_cut(original: Any) -> Any:
    return property(lambda self: self.type in ("message", "reasoning"))


@BUGS.plant(Run, "_cut_if_safe")
def a_cut_item_is_left_open(original: Any) -> Any:
    def cut_if_safe(self: Run) -> None:
        finish, self._output.finish = self._output.finish, _nothing  # type: ignore[method-assign]
        try:
            original(self)
        finally:
            self._output.finish = finish  # type: ignore[method-assign]  # as it was

    return cut_if_safe


@BUGS.plant(Worker, "_stop")
def a_cut_leaves_the_backend_running(original: Any) -> Any:
    return lambda self, carried: carried.run.cut()


@BUGS.plant(worker, "KEPT")
def a_steered_response_is_no_parent(original: Any) -> Any:
    return original - {RunState.STEERED}


@BUGS.plant(worker, "steers_first")
def steers_come_after_the_creates_own_input(original: Any) -> Any:
    return lambda bound, items: [*items, *original(bound, ())]


@BUGS.plant(worker, "inherited")
def the_parents_input_is_said_again(original: Any) -> Any:
    return lambda parent, parent_id: {**parent, "previous_response_id": parent_id}


@BUGS.plant(Board, "succeed")
def the_successor_goes_behind_the_queue(original: Any) -> Any:
    def succeed(self: Board, stream_id: str | None, successor: Any) -> None:
        original(self, stream_id, successor)
        self._active -= 1

    return succeed


@BUGS.plant(Desk, "claim")
def a_create_that_starts_is_not_seen(original: Any) -> Any:
    return _nothing


@BUGS.plant(Desk, "fail_target")
def a_cancelled_response_keeps_its_steers(original: Any) -> Any:
    return lambda self, name, why="failed": original(self, name) if why == "failed" else None


@BUGS.plant(Attempt, "hang_up")
def a_cancel_leaves_the_backend_running(original: Any) -> Any:
    return _nothing


@BUGS.plant(Board, "clear")
def a_waiting_create_is_cancelled_without_a_word(original: Any) -> Any:
    return lambda self, lane: original(self, lane)[:0]


@BUGS.plant(Desk, "disclaim")
def steers_wait_for_a_create_that_was_cancelled(original: Any) -> Any:
    return _nothing


@BUGS.plant(StartGate, "stop")
def a_create_that_waits_for_the_store_is_not_answered_at_the_end(original: Any) -> Any:
    return _nothing
