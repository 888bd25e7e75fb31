"""The states of a run, and every step between them."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
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


class Step(StrEnum):
    """What can happen to a run."""

    BEGIN = "begin"
    COMPLETE = "complete"
    STOP = "stop"
    FAIL = "fail"
    ABANDON = "abandon"
    CUT = "cut"
    STEER = "steer"


TRANSITIONS: dict[tuple[State, Step], State] = {
    (State.STARTING, Step.BEGIN): State.STREAMING,
    (State.STARTING, Step.FAIL): State.REFUSED,
    (State.STARTING, Step.ABANDON): State.ABANDONED,
    (State.STREAMING, Step.COMPLETE): State.COMPLETED,
    (State.STREAMING, Step.STOP): State.INCOMPLETE,
    (State.STREAMING, Step.FAIL): State.FAILED,
    (State.STREAMING, Step.ABANDON): State.ABANDONED,
    (State.STREAMING, Step.CUT): State.CUTTING,
    (State.CUTTING, Step.STEER): State.STEERED,
    (State.CUTTING, Step.COMPLETE): State.COMPLETED,
    (State.CUTTING, Step.STOP): State.INCOMPLETE,
    (State.CUTTING, Step.FAIL): State.FAILED,
    (State.CUTTING, Step.ABANDON): State.ABANDONED,
}
LIVE = frozenset({State.STARTING, State.STREAMING, State.CUTTING})
STREAMING = frozenset({State.STREAMING, State.CUTTING})
