"""The states of a run, and every step between them."""

from __future__ import annotations

from enum import StrEnum


class RunState(StrEnum):
    """Where a run is. All but the first three are ends."""

    STARTING = "starting"
    STREAMING = "streaming"
    CUTTING = "cutting"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    STEERED = "steered"
    REFUSED = "refused"
    ABANDONED = "abandoned"


class RunStep(StrEnum):
    """What can happen to a run."""

    BEGIN = "begin"
    COMPLETE = "complete"
    STOP = "stop"
    FAIL = "fail"
    ABANDON = "abandon"
    CUT = "cut"
    STEER = "steer"


TRANSITIONS: dict[tuple[RunState, RunStep], RunState] = {
    (RunState.STARTING, RunStep.BEGIN): RunState.STREAMING,
    (RunState.STARTING, RunStep.FAIL): RunState.REFUSED,
    (RunState.STARTING, RunStep.ABANDON): RunState.ABANDONED,
    (RunState.STREAMING, RunStep.COMPLETE): RunState.COMPLETED,
    (RunState.STREAMING, RunStep.STOP): RunState.INCOMPLETE,
    (RunState.STREAMING, RunStep.FAIL): RunState.FAILED,
    (RunState.STREAMING, RunStep.ABANDON): RunState.ABANDONED,
    (RunState.STREAMING, RunStep.CUT): RunState.CUTTING,
    (RunState.CUTTING, RunStep.STEER): RunState.STEERED,
    (RunState.CUTTING, RunStep.COMPLETE): RunState.COMPLETED,
    (RunState.CUTTING, RunStep.STOP): RunState.INCOMPLETE,
    (RunState.CUTTING, RunStep.FAIL): RunState.FAILED,
    (RunState.CUTTING, RunStep.ABANDON): RunState.ABANDONED,
}
LIVE = frozenset({RunState.STARTING, RunState.STREAMING, RunState.CUTTING})
STREAMING = frozenset({RunState.STREAMING, RunState.CUTTING})
