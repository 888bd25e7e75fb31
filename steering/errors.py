"""Why a submission was refused or could not be committed (protocol.md 5)."""

from __future__ import annotations

from enum import StrEnum


class SteerErrorCode(StrEnum):
    """The codes of `response.steer.failed`."""

    INVALID_INPUT = "invalid_input"
    NOT_FOUND = "response_not_found"
    NOT_SUPPORTED = "steering_not_supported"
    TOO_MANY = "too_many_pending_steers"
    COMPLETED = "response_already_completed"
    NOT_ACTIVE = "response_not_active"
    SUCCESSOR_FAILED = "successor_creation_failed"
    UNAVAILABLE = "steering_unavailable"


class SteerFault(Exception):
    """A submission fails with a code and a message; its input goes back to the client."""

    def __init__(self, code: SteerErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class IllegalSubmissionStep(AssertionError):
    """The ledger was asked for a step its table does not have: our fault, never the client's."""
