"""The ledger by its table: every step it has, none that it has not; phases, limits, forgetting."""

from __future__ import annotations

from typing import Any

import pytest

from steering.errors import Code, IllegalStep, SteerFault
from steering.ledger import Ledger, Phase, Submission, Target
from steering.states import ENDS, TRANSITIONS, State, Step

#: How a submission gets into each state.
PATHS: dict[State, tuple[Step, ...]] = {
    State.ADMITTING: (),
    State.ACCEPTED: (Step.ACCEPT,),
    State.PENDING: (Step.ACCEPT, Step.HOLD),
    State.BOUND: (Step.ACCEPT, Step.BIND),
    State.COMMITTED: (Step.ACCEPT, Step.BIND, Step.COMMIT),
    State.FAILED: (Step.FAIL,),
    State.DROPPED: (Step.DROP,),
}


def ignore(event: dict[str, Any]) -> None:
    """Nobody hears of it."""


def opened(ledger: Ledger, name: str = "r1", **extra: Any) -> Target:
    target = Target(name, "a", ignore, **extra)
    ledger.open(target)
    return target


def submitted(ledger: Ledger, target: Target, name: str = "s1", size: int = 10) -> Submission:
    return ledger.submit(name, target, "x", [{"role": "user"}], size)


def refused(ledger: Ledger, target: Target, size: int = 10) -> Code:
    with pytest.raises(SteerFault) as fault:
        submitted(ledger, target, size=size)
    return fault.value.code


def in_state(state: State) -> tuple[Ledger, Target, Submission]:
    ledger = Ledger()
    target = opened(ledger)
    submission = submitted(ledger, target)
    for step in PATHS[state]:
        ledger._step(submission, step)
    assert submission.state is state
    return ledger, target, submission


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("state", State)
def test_every_row_and_every_missing_one(state: State, step: Step) -> None:
    ledger, target, submission = in_state(state)
    if (state, step) not in TRANSITIONS:
        with pytest.raises(IllegalStep, match=f"cannot {step} while {state}"):
            ledger._step(submission, step)
        assert submission.state is state
        return
    ledger._step(submission, step)
    assert submission.state is TRANSITIONS[state, step]
    assert (submission in target.waiting) == (submission.state not in ENDS)


def test_an_end_has_no_way_out() -> None:
    assert not [row for row in TRANSITIONS if row[0] in ENDS]
    assert set(PATHS) == set(State)


def test_the_calls_take_the_steps() -> None:
    ledger = Ledger()
    target = opened(ledger)
    first, second, third = (submitted(ledger, target, f"s{n}") for n in range(3))
    ledger.accept(first)
    ledger.accept(second)
    ledger.end(target, Phase.WAITING, [{"type": "x"}])
    assert ledger.hold(target) == [first, second]
    assert ledger.hold(target) == []  # each is pending once
    ledger.accept(third)
    assert ledger.hold(target) == [third]
    late = submitted(ledger, target, "late")
    assert ledger.bind(target) == [first, second, third]
    with pytest.raises(SteerFault) as fault:
        ledger.accept(late)
    assert fault.value.code is Code.NOT_ACTIVE
    ledger.fail(late)
    ledger.commit(first)
    ledger.fail(second)
    assert target.waiting == [third]
    assert ledger.drop() == [third]
    assert target.waiting == []
    states = [one.state for one in (first, second, third, late)]
    assert states == [State.COMMITTED, State.FAILED, State.DROPPED, State.FAILED]


@pytest.mark.parametrize(
    ("phase", "code"),
    [
        (Phase.ACTIVE, None),
        (Phase.WAITING, None),
        (Phase.COMPLETED, Code.COMPLETED),
        (Phase.CLOSED, Code.NOT_ACTIVE),
    ],
)
def test_what_each_phase_takes(phase: Phase, code: Code | None) -> None:
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
    assert early.state is State.ADMITTING


def test_its_kind_is_told_before_its_phase() -> None:
    ledger = Ledger(max_waiting=0)
    target = opened(ledger, refusal="not this kind")
    ledger.end(target, Phase.COMPLETED)
    with pytest.raises(SteerFault, match="not this kind") as fault:
        submitted(ledger, target)
    assert fault.value.code is Code.NOT_SUPPORTED


def test_so_many_may_wait() -> None:
    ledger = Ledger()
    target, other = opened(ledger), opened(ledger, "r2")
    taken = [submitted(ledger, target, f"s{n}") for n in range(32)]
    assert refused(ledger, target) is Code.TOO_MANY
    submitted(ledger, other)
    ledger.fail(taken[3])
    submitted(ledger, target)
    assert refused(ledger, target) is Code.TOO_MANY


def test_so_much_may_wait() -> None:
    ledger = Ledger()
    target = opened(ledger)
    assert refused(ledger, target, (1 << 20) + 1) is Code.TOO_MANY
    whole = submitted(ledger, target, size=1 << 20)
    assert refused(ledger, target, 1) is Code.TOO_MANY
    ledger.accept(whole)
    assert refused(ledger, target, 1) is Code.TOO_MANY
    ledger.bind(target)
    ledger.commit(whole)
    assert refused(ledger, target, 1) is Code.NOT_ACTIVE


@pytest.mark.parametrize("phase", [Phase.WAITING, Phase.COMPLETED, Phase.CLOSED])
def test_what_is_long_over_is_forgotten(phase: Phase) -> None:
    ledger = Ledger(max_targets=3)
    active, owed = opened(ledger, "active"), opened(ledger, "owed")
    waits = submitted(ledger, owed)
    ledger.end(owed, Phase.WAITING)
    for number in range(9):
        ledger.end(opened(ledger, f"r{number}"), phase)
    assert [ledger.find(f"r{n}") is not None for n in range(9)] == [False] * 8 + [True]
    assert ledger.find("active") is active
    assert ledger.find("owed") is owed
    assert ledger.drop() == [waits]


def test_a_chain_of_steered_responses_is_forgotten_too() -> None:
    ledger = Ledger(max_targets=3)
    for number in range(9):
        target = opened(ledger, f"r{number}")
        submission = submitted(ledger, target)
        ledger.accept(submission)
        assert ledger.bind(target) == [submission]
        ledger.commit(submission)
    assert sum(ledger.find(f"r{n}") is not None for n in range(9)) <= 4


@pytest.mark.parametrize("phase", list(Phase)[1:])
def test_what_is_over_keeps_nothing_of_its_response(phase: Phase) -> None:
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
