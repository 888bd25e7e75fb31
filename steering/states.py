"""The states of a submission, and every step between them (protocol.md 5)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class State(StrEnum):
    """Where a submission is. The last three are ends."""

    ADMITTING = "admitting"  # its record is being written
    ACCEPTED = "accepted"
    PENDING = "pending"
    BOUND = "bound"  # in a request that is on its way
    COMMITTED = "committed"
    FAILED = "failed"
    DROPPED = "dropped"


class Step(StrEnum):
    """What moves a submission."""

    ACCEPT = "accept"
    HOLD = "hold"
    BIND = "bind"
    COMMIT = "commit"
    FAIL = "fail"
    DROP = "drop"


TRANSITIONS: Mapping[tuple[State, Step], State] = {
    (State.ADMITTING, Step.ACCEPT): State.ACCEPTED,
    (State.ADMITTING, Step.FAIL): State.FAILED,
    (State.ADMITTING, Step.DROP): State.DROPPED,
    (State.ACCEPTED, Step.HOLD): State.PENDING,
    (State.ACCEPTED, Step.BIND): State.BOUND,
    (State.ACCEPTED, Step.FAIL): State.FAILED,
    (State.ACCEPTED, Step.DROP): State.DROPPED,
    (State.PENDING, Step.BIND): State.BOUND,
    (State.PENDING, Step.DROP): State.DROPPED,
    (State.BOUND, Step.COMMIT): State.COMMITTED,
    (State.BOUND, Step.FAIL): State.FAILED,
    (State.BOUND, Step.DROP): State.DROPPED,
}
ENDS = frozenset({State.COMMITTED, State.FAILED, State.DROPPED})
