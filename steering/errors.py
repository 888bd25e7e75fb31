"""What can go wrong in steering (protocol.md 5), and the one exception of every store."""

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


class StoreUnavailable(Exception):
    """A store refused or did not answer in time; it may have done what was asked all the same.

    Every store raises it, of submissions or of responses. Its text is for the log: each shell
    translates it at the border into what the client sees.
    """


class SenselessAnswer(StoreUnavailable):
    """A store answered something that the question has no answer of: a broken or a wrong server."""

    def __init__(self) -> None:
        super().__init__("the store's answer makes no sense")


class SteerFault(Exception):
    """Fails a submission with a code and a message; its input goes back to the client."""

    def __init__(self, code: SteerErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class IllegalSubmissionStep(AssertionError):
    """The ledger was asked for a step its table does not have: our fault, never the client's."""
