"""What can go wrong, by whose fault.

ClientFault    the frame or the request was wrong: one `error` event, the connection lives
UpstreamFault  the backend failed: `error` before `response.created`, `response.failed` after it

The end of a connection is a cancellation, and a fault of our own is any other exception.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Fault(Exception):
    """Carries the fields of an `error` event (protocol.md 6)."""

    def __init__(
        self,
        message: str,
        *,
        code: str | None,
        status: int = 400,
        type: str = "invalid_request_error",
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.type = type
        self.param = param
        self.headers = headers


class ClientFault(Fault):
    """The client's frame or request was wrong; says what was wrong and what is allowed."""


class UpstreamFault(Fault):
    """The backend refused, broke off or sent nonsense; code, status and headers are its own."""


class IllegalTransition(AssertionError):
    """A machine was asked for a step its table does not have: our fault, never the peer's."""
