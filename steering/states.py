"""The states of a submission, and every step between them (protocol.md 5)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class SubmissionState(StrEnum):
    """The states of a submission. The last three are ends."""

    ADMITTING = "admitting"  # its record is being written
    ACCEPTED = "accepted"
    PENDING = "pending"
    BOUND = "bound"  # in a request that is on its way
    COMMITTED = "committed"
    FAILED = "failed"
    DROPPED = "dropped"


class SubmissionStep(StrEnum):
    """What moves a submission."""

    ACCEPT = "accept"
    HOLD = "hold"
    BIND = "bind"
    COMMIT = "commit"
    FAIL = "fail"
    DROP = "drop"


TRANSITIONS: Mapping[tuple[SubmissionState, SubmissionStep], SubmissionState] = {
    (SubmissionState.ADMITTING, SubmissionStep.ACCEPT): SubmissionState.ACCEPTED,
    (SubmissionState.ADMITTING, SubmissionStep.FAIL): SubmissionState.FAILED,
    (SubmissionState.ADMITTING, SubmissionStep.DROP): SubmissionState.DROPPED,
    (SubmissionState.ACCEPTED, SubmissionStep.HOLD): SubmissionState.PENDING,
    (SubmissionState.ACCEPTED, SubmissionStep.BIND): SubmissionState.BOUND,
    (SubmissionState.ACCEPTED, SubmissionStep.FAIL): SubmissionState.FAILED,
    (SubmissionState.ACCEPTED, SubmissionStep.DROP): SubmissionState.DROPPED,
    (SubmissionState.PENDING, SubmissionStep.BIND): SubmissionState.BOUND,
    (SubmissionState.PENDING, SubmissionStep.DROP): SubmissionState.DROPPED,
    (SubmissionState.BOUND, SubmissionStep.COMMIT): SubmissionState.COMMITTED,
    (SubmissionState.BOUND, SubmissionStep.FAIL): SubmissionState.FAILED,
    (SubmissionState.BOUND, SubmissionStep.DROP): SubmissionState.DROPPED,
}
ENDS = frozenset({SubmissionState.COMMITTED, SubmissionState.FAILED, SubmissionState.DROPPED})
