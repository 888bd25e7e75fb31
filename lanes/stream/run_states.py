"""The states of a run, and every step between them (protocol.md 4 and 5)."""

from __future__ import annotations

from enum import StrEnum


class RunState(StrEnum):
    """Where a run is. All but the first four are ends."""

    STARTING = "starting"  # before `response.created`
    QUEUED = "queued"  # in the background: after it, and before the upstream's first word
    STREAMING = "streaming"
    CUTTING = "cutting"  # a steer waits for a safe boundary
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    STEERED = "steered"
    CANCELLED = "cancelled"  # the client wants no more of it, and to know what there was
    REFUSED = "refused"  # failed before `response.created`
    ABANDONED = "abandoned"  # the client left


class RunStep(StrEnum):
    """What can happen to a run."""

    QUEUE = "queue"
    BEGIN = "begin"
    COMPLETE = "complete"
    STOP = "stop"  # the backend stopped early: `response.incomplete`
    FAIL = "fail"
    ABANDON = "abandon"
    CUT = "cut"  # a steer asks for a boundary
    STEER = "steer"  # the boundary is reached
    CANCEL = "cancel"  # the client asks for the end, here and now


TRANSITIONS: dict[tuple[RunState, RunStep], RunState] = {
    (RunState.STARTING, RunStep.BEGIN): RunState.STREAMING,
    (RunState.STARTING, RunStep.FAIL): RunState.REFUSED,
    (RunState.STARTING, RunStep.ABANDON): RunState.ABANDONED,
    (RunState.STARTING, RunStep.QUEUE): RunState.QUEUED,
    (RunState.QUEUED, RunStep.BEGIN): RunState.STREAMING,
    (RunState.QUEUED, RunStep.FAIL): RunState.FAILED,
    (RunState.QUEUED, RunStep.ABANDON): RunState.ABANDONED,
    (RunState.STREAMING, RunStep.COMPLETE): RunState.COMPLETED,
    (RunState.STREAMING, RunStep.STOP): RunState.INCOMPLETE,
    (RunState.STREAMING, RunStep.FAIL): RunState.FAILED,
    (RunState.STREAMING, RunStep.ABANDON): RunState.ABANDONED,
    (RunState.STREAMING, RunStep.CUT): RunState.CUTTING,
    (RunState.STREAMING, RunStep.CANCEL): RunState.CANCELLED,
    (RunState.CUTTING, RunStep.STEER): RunState.STEERED,
    (RunState.CUTTING, RunStep.COMPLETE): RunState.COMPLETED,
    (RunState.CUTTING, RunStep.STOP): RunState.INCOMPLETE,
    (RunState.CUTTING, RunStep.FAIL): RunState.FAILED,
    (RunState.CUTTING, RunStep.ABANDON): RunState.ABANDONED,
    (RunState.CUTTING, RunStep.CANCEL): RunState.CANCELLED,
}
#: The states of a run that has not ended.
LIVE = frozenset({RunState.STARTING, RunState.QUEUED, RunState.STREAMING, RunState.CUTTING})
#: The states between `response.created` and the end.
STREAMING = frozenset({RunState.QUEUED, RunState.STREAMING, RunState.CUTTING})
#: The ends of a run that did not finish what it said, and is a valid parent.
STOPPED = frozenset({RunState.INCOMPLETE, RunState.STEERED, RunState.CANCELLED})
#: A run that ended in one of these is a valid parent; a failed one never is (protocol.md 3).
KEPT = STOPPED | {RunState.COMPLETED}
