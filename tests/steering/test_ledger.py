"""The ledger by its table: every step it has, none that it has not; phases, limits, forgetting."""

from __future__ import annotations

from typing import Any

import pytest

from steering.errors import IllegalSubmissionStep, SteerErrorCode, SteerFault
from steering.ledger import Ledger
from steering.states import ENDS, TRANSITIONS, SubmissionState, SubmissionStep
from steering.targets import Submission, Target, TargetPhase

#: How a submission gets into each state.
PATHS: dict[SubmissionState, tuple[SubmissionStep, ...]] = {
    SubmissionState.ADMITTING: (),
    SubmissionState.ACCEPTED: (SubmissionStep.ACCEPT,),
    SubmissionState.PENDING: (SubmissionStep.ACCEPT, SubmissionStep.HOLD),
    SubmissionState.BOUND: (SubmissionStep.ACCEPT, SubmissionStep.BIND),
    SubmissionState.COMMITTED: (SubmissionStep.ACCEPT, SubmissionStep.BIND, SubmissionStep.COMMIT),
    SubmissionState.FAILED: (SubmissionStep.FAIL,),
    SubmissionState.DROPPED: (SubmissionStep.DROP,),
}


def ignore(event: dict[str, Any]) -> None:
    """Nobody hears of it."""


def opened(ledger: Ledger, name: str = "r1", **extra: Any) -> Target:
    target = Target(name, "a", ignore, **extra)
    ledger.open(target)
    return target


def submitted(ledger: Ledger, target: Target, name: str = "s1", size: int = 10) -> Submission:
    return ledger.submit(name, target, "x", [{"role": "user"}], size)


def refused(ledger: Ledger, target: Target, size: int = 10) -> SteerErrorCode:
    with pytest.raises(SteerFault) as fault:
        submitted(ledger, target, size=size)
    return fault.value.code


def in_state(state: SubmissionState) -> tuple[Ledger, Target, Submission]:
    ledger = Ledger()
    target = opened(ledger)
    submission = submitted(ledger, target)
    for step in PATHS[state]:
        ledger._step(submission, step)
    assert submission.state is state
    return ledger, target, submission


@pytest.mark.parametrize("step", SubmissionStep)
@pytest.mark.parametrize("state", SubmissionState)
def test_every_row_and_every_missing_one(state: SubmissionState, step: SubmissionStep) -> None:
    ledger, target, submission = in_state(state)
    if (state, step) not in TRANSITIONS:
        with pytest.raises(IllegalSubmissionStep, match=f"cannot {step} while {state}"):
            ledger._step(submission, step)
        assert submission.state is state
        return
    ledger._step(submission, step)
    assert submission.state is TRANSITIONS[state, step]
    assert (submission in target.waiting) == (submission.state not in ENDS)


def test_an_end_has_no_way_out() -> None:
    assert not [row for row in TRANSITIONS if row[0] in ENDS]
    assert set(PATHS) == set(SubmissionState)


def test_the_calls_take_the_steps() -> None:
    ledger = Ledger()
    target = opened(ledger)
    first, second, third = (submitted(ledger, target, f"s{n}") for n in range(3))
    ledger.accept(first)
    ledger.accept(second)
    ledger.end(target, TargetPhase.WAITING, [{"type": "x"}])
    assert ledger.hold(target) == [first, second]
    assert ledger.hold(target) == []  # each is pending once
    ledger.accept(third)
    assert ledger.hold(target) == [third]
    late = submitted(ledger, target, "late")
    assert ledger.bind(target) == [first, second, third]
    ledger.accept(late)  # for what follows
    ledger.fail(late)
    ledger.commit(first)
    ledger.fail(second)
    assert target.waiting == [third]
    assert ledger.drop() == [third]
    assert target.waiting == []
    states = [one.state for one in (first, second, third, late)]
    assert states == [
        SubmissionState.COMMITTED,
        SubmissionState.FAILED,
        SubmissionState.DROPPED,
        SubmissionState.FAILED,
    ]


@pytest.mark.parametrize(
    ("phase", "code"),
    [
        (TargetPhase.ACTIVE, None),
        (TargetPhase.WAITING, None),
        (TargetPhase.COMPLETED, SteerErrorCode.COMPLETED),
        (TargetPhase.CLOSED, SteerErrorCode.NOT_ACTIVE),
    ],
)
def test_what_each_phase_takes(phase: TargetPhase, code: SteerErrorCode | None) -> None:
    ledger = Ledger()
    target = opened(ledger)
    early = submitted(ledger, target)
    ledger.end(target, phase)
    if code is None:
        submitted(ledger, target)
        ledger.accept(early)
        return
    assert refused(ledger, target) is code
    with pytest.raises(SteerFault) as fault:
        ledger.accept(early)
    assert fault.value.code is code
    assert early.state is SubmissionState.ADMITTING


def test_its_kind_is_told_before_its_phase() -> None:
    ledger = Ledger(max_waiting=0)
    target = opened(ledger, refusal="not this kind")
    ledger.end(target, TargetPhase.COMPLETED)
    with pytest.raises(SteerFault, match="not this kind") as fault:
        submitted(ledger, target)
    assert fault.value.code is SteerErrorCode.NOT_SUPPORTED


def test_so_many_may_wait() -> None:
    ledger = Ledger()
    target, other = opened(ledger), opened(ledger, "r2")
    taken = [submitted(ledger, target, f"s{n}") for n in range(32)]
    assert refused(ledger, target) is SteerErrorCode.TOO_MANY
    submitted(ledger, other)
    ledger.fail(taken[3])
    submitted(ledger, target)
    assert refused(ledger, target) is SteerErrorCode.TOO_MANY


def test_so_much_may_wait() -> None:
    ledger = Ledger()
    target = opened(ledger)
    assert refused(ledger, target, (1 << 20) + 1) is SteerErrorCode.TOO_MANY
    whole = submitted(ledger, target, size=1 << 20)
    assert refused(ledger, target, 1) is SteerErrorCode.TOO_MANY
    ledger.accept(whole)
    assert refused(ledger, target, 1) is SteerErrorCode.TOO_MANY
    ledger.bind(target)
    assert refused(ledger, target, 1) is SteerErrorCode.TOO_MANY
    assert ledger.open(Target("r2", "a", ignore), [whole]) == []
    ledger.commit(whole)
    submitted(ledger, target, size=1 << 20)


@pytest.mark.parametrize("phase", [TargetPhase.WAITING, TargetPhase.COMPLETED, TargetPhase.CLOSED])
def test_what_is_long_over_is_forgotten(phase: TargetPhase) -> None:
    ledger = Ledger(max_targets=3)
    active, owed = opened(ledger, "active"), opened(ledger, "owed")
    waits = submitted(ledger, owed)
    ledger.end(owed, TargetPhase.WAITING)
    for number in range(9):
        ledger.end(opened(ledger, f"r{number}"), phase)
    assert [ledger.find(f"r{n}") is not None for n in range(9)] == [False] * 8 + [True]
    assert ledger.find("active") is active
    assert ledger.find("owed") is owed
    assert ledger.drop() == [waits]


def test_a_chain_of_steered_responses_is_forgotten_too() -> None:
    ledger = Ledger(max_targets=3)
    bound: list[Submission] = []
    for number in range(9):
        bound = steered(ledger, follows(ledger, f"r{number}", bound))
    assert sum(ledger.find(f"r{n}") is not None for n in range(9)) <= 4


@pytest.mark.parametrize("phase", list(TargetPhase)[1:])
def test_what_is_over_keeps_nothing_of_its_response(phase: TargetPhase) -> None:
    kept = [0]
    ledger = Ledger()
    target = opened(ledger, cut=lambda _: kept.append(1))
    submission = submitted(ledger, target)
    target.cut(submission)
    ledger.end(target, phase)
    target.cut(submission)
    assert kept == [0, 1]
    assert "lambda" not in repr(target.cut)


def test_find_knows_only_its_own() -> None:
    assert Ledger().find("r1") is None


def test_those_that_wait_for_outputs_are_at_hand() -> None:
    ledger = Ledger(max_targets=1)
    first, second = opened(ledger, "r1"), opened(ledger, "r2")
    assert ledger.awaiting_outputs == {}
    ledger.end(first, TargetPhase.WAITING, [{"type": "function_call_output"}])
    assert ledger.awaiting_outputs == {}, "forgotten with the oldest"
    ledger.end(second, TargetPhase.WAITING, [{"type": "function_call_output"}])
    assert ledger.awaiting_outputs == {"r2": second}
    ledger.bind(second)
    assert ledger.awaiting_outputs == {}


def steered(ledger: Ledger, target: Target) -> list[Submission]:
    """What its successor was asked for with."""
    submission = submitted(ledger, target)
    ledger.accept(submission)
    return ledger.bind(target)


def follows(ledger: Ledger, name: str, bound: list[Submission], **extra: Any) -> Target:
    """The successor begins."""
    target = Target(name, "a", ignore, **extra)
    assert ledger.open(target, bound) == []
    for submission in bound:
        ledger.commit(submission)
    return target


def test_a_late_steer_finds_the_live_end() -> None:
    ledger = Ledger()
    first = last = opened(ledger)
    for number in range(2, 9):
        last = follows(ledger, f"r{number}", steered(ledger, last))
    late = submitted(ledger, first)
    assert (late.named, late.of, late.effective) == (first, last, None)
    ledger.accept(late)
    assert (late.effective, late.told) == (last, last)
    assert last.waiting == [late]
    ledger.end(last, TargetPhase.WAITING, [{"type": "x"}])
    assert ledger.hold(last) == [late]
    assert ledger.bind(last) == [late]


def test_what_waits_for_a_successor_is_its_own_once_it_begins() -> None:
    ledger = Ledger()
    first = opened(ledger)
    bound = steered(ledger, first)
    ready, slow = submitted(ledger, first), submitted(ledger, first)
    ledger.accept(ready)
    assert (ready.effective, ready.told) == (None, first)
    second = Target("r2", "a", ignore)
    assert ledger.open(second, bound) == [ready]
    assert (ready.of, ready.told, slow.of, slow.told) == (second, second, second, first)
    ledger.accept(slow)
    assert slow.told is second
    assert second.waiting == [ready, slow]
    assert ledger.bind(second) == [ready, slow]


def test_what_is_admitted_too_late_for_a_successor_waits_for_it() -> None:
    ledger = Ledger()
    first = opened(ledger)
    ready, slow = submitted(ledger, first), submitted(ledger, first)
    ledger.accept(ready)
    bound = ledger.bind(first)
    assert bound == [ready]
    ledger.accept(slow)
    assert ledger.open(Target("r2", "a", ignore), bound) == [slow]


def test_a_successor_that_does_not_begin_gives_all_back() -> None:
    ledger = Ledger()
    first = opened(ledger)
    bound = steered(ledger, first)
    ready, slow = submitted(ledger, first), submitted(ledger, first)
    ledger.accept(ready)
    assert ledger.forgo(bound) == [*bound, ready]
    assert ready.told is first
    for submission in (*bound, ready):
        ledger.fail(submission)
    assert ledger.forgo(bound) == []
    assert first.waiting == [slow]
    with pytest.raises(SteerFault) as fault:
        ledger.accept(slow)
    assert fault.value.code is SteerErrorCode.NOT_ACTIVE
    assert refused(ledger, first) is SteerErrorCode.NOT_ACTIVE


@pytest.mark.parametrize(
    ("phase", "code"),
    [
        (TargetPhase.COMPLETED, SteerErrorCode.COMPLETED),
        (TargetPhase.CLOSED, SteerErrorCode.NOT_ACTIVE),
    ],
)
def test_the_end_of_the_chain_says_why_it_takes_no_more(
    phase: TargetPhase, code: SteerErrorCode
) -> None:
    ledger = Ledger()
    first = opened(ledger)
    second = follows(ledger, "r2", steered(ledger, first))
    early = submitted(ledger, first)
    ledger.end(second, phase)
    assert refused(ledger, first) is code
    with pytest.raises(SteerFault, match="r2") as fault:
        ledger.accept(early)
    assert fault.value.code is code
    assert early.told is first


def test_a_successor_of_another_kind_takes_none() -> None:
    ledger = Ledger()
    first = opened(ledger)
    follows(ledger, "r2", steered(ledger, first), refusal="not this kind")
    assert refused(ledger, first) is SteerErrorCode.NOT_SUPPORTED


def test_limits_count_what_waits_in_the_chain() -> None:
    ledger = Ledger(max_waiting=3, max_bytes=100)
    first = opened(ledger)
    bound = steered(ledger, first)
    submitted(ledger, first)
    assert refused(ledger, first, 81) is SteerErrorCode.TOO_MANY
    submitted(ledger, first)
    assert refused(ledger, first) is SteerErrorCode.TOO_MANY
    assert ledger.open(Target("r2", "a", ignore), bound) == []
    ledger.commit(bound[0])
    submitted(ledger, first)
    assert refused(ledger, first) is SteerErrorCode.TOO_MANY


def test_all_that_waits_in_a_chain_is_dropped_with_it() -> None:
    ledger = Ledger()
    first = opened(ledger)
    bound = steered(ledger, first)
    late = submitted(ledger, first)
    assert ledger.drop() == [*bound, late]


def test_without_following_a_steered_response_takes_no_more() -> None:
    ledger = Ledger(follow=False)
    first = opened(ledger)
    slow = submitted(ledger, first)
    bound = steered(ledger, first)
    assert refused(ledger, first) is SteerErrorCode.NOT_ACTIVE
    with pytest.raises(SteerFault):
        ledger.accept(slow)
    follows(ledger, "r2", bound)
    assert refused(ledger, first) is SteerErrorCode.NOT_ACTIVE
