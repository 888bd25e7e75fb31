"""Bugs planted in how a late steer finds what follows, and in what is sent again."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from steering import ledger
from steering.clerk import Records
from steering.desk import Desk
from steering.frames import Steer
from steering.ledger import Ledger
from tests.machines.bugs import Bugs
from tests.steering.rules import play

if TYPE_CHECKING:
    from steering.targets import Submission, Target

BUGS = Bugs(partial(play, 250))


@BUGS.plant(Ledger, "open")
def what_waited_for_a_successor_does_not_stop_it(original: Any) -> Any:
    return lambda self, target, carried=(): original(self, target, carried)[:0]


@BUGS.plant(Ledger, "open")
def what_waited_for_a_successor_is_lost(original: Any) -> Any:
    def opened(self: Ledger, target: Target, carried: Any = ()) -> Any:
        waited = original(self, target, carried)
        target.waiting = []
        return waited[:0]

    return opened


@BUGS.plant(Ledger, "forgo")
def a_refused_successor_swallows_what_waited_for_it(original: Any) -> Any:
    return lambda self, bound: [one for one in original(self, bound) if one in bound]


@BUGS.plant(Ledger, "accept")
def what_a_steer_was_taken_for_is_not_told(original: Any) -> Any:
    def accept(self: Ledger, submission: Submission) -> None:
        original(self, submission)
        submission.effective = None

    return accept


@BUGS.plant(Ledger, "submit")
def a_late_steer_is_refused(original: Any) -> Any:
    def submit(self: Ledger, steer_id: str, target: Target, *args: Any) -> Any:
        ledger._check_open(target)
        return original(self, steer_id, target, *args)

    return submit


@BUGS.plant(Records, "_record")
def a_record_names_the_live_end(original: Any) -> Any:
    def record(self: Records, submission: Submission) -> Any:
        named, submission.named = submission.named, submission.of
        try:
            return original(self, submission)
        finally:
            submission.named = named

    return record


@BUGS.plant(Desk, "_repeat")
def what_is_sent_again_is_not_answered(original: Any) -> Any:
    async def repeat(self: Desk, *_: object) -> None:
        """Not a word."""

    return repeat


@BUGS.plant(Ledger, "submit")
def what_is_sent_again_counts_twice(original: Any) -> Any:
    def submit(self: Ledger, *args: Any) -> Any:
        submission = original(self, *args)
        submission.named.keyed.pop(submission.event_id, None)
        return submission

    return submit


@BUGS.plant(Steer, "digest")
def a_key_takes_any_input(original: Any) -> Any:
    return property(lambda self: b"")


@BUGS.plant(Ledger, "fail")
def a_refused_steer_keeps_its_key(original: Any) -> Any:
    def fail(self: Ledger, submission: Submission) -> None:
        keyed = dict(submission.named.keyed)
        original(self, submission)
        submission.named.keyed = keyed

    return fail
