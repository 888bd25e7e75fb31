"""What can go wrong, by whose fault (protocol.md 6).

ClientFault    the frame or the request was wrong: one `error` event, the connection lives
UpstreamFault  the backend failed: `error` before `response.created`, `response.failed` after it

The end of a connection is a cancellation. Any other exception is a fault of our own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping


class Fault(Exception):
    """Carries the fields of an `error` event (protocol.md 6).

    Whoever keeps one that was raised keeps it `bare`.

    Args:
        message: What was wrong and what is allowed.
        code: The machine-readable code.
        status: The HTTP status.
        type: The class of error, as the reference names it.
        param: The request key that is wrong.
        headers: The upstream's headers that the client may see.
    """

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

    def bare(self) -> Self:
        """Drop its traceback and what it came of; return it.

        The frames in these would lead back to the fault, and all that they hold would wait for the
        collector (D13).
        """
        self.__context__ = self.__cause__ = None
        return self.with_traceback(None)


class ClientFault(Fault):
    """The client's frame or request was wrong."""


class UpstreamFault(Fault):
    """The backend refused, broke off or sent nonsense; code, status and headers are its own.

    `logged` is for the log, where the message has words of the backend's, which may quote input;
    `answered` says that the backend itself reported the fault.
    """

    logged: str | None = None
    answered = False


def own_fault(message: str) -> UpstreamFault:
    """Return the fault that reports a failure of the gateway itself."""
    return UpstreamFault(message, code="server_error", status=500, type="server_error")


def cancelled() -> ClientFault:
    """Return the fault that answers a create which the client took back before it began.

    499 is what proxies say of a request whose client wants no answer; no client tries it again
    (D34).
    """
    return ClientFault("This request was cancelled before it began.", code="cancelled", status=499)


def parent_not_found(parent_id: str, why: str | None = None) -> ClientFault:
    """Make the error of a `previous_response_id` that is nobody's here."""
    return ClientFault(
        f"Previous response with id '{parent_id}' not found{'' if why is None else ': ' + why}.",
        code="previous_response_not_found",
        param="previous_response_id",
    )


def unreadable_compaction(param: str = "input") -> ClientFault:
    """Return the fault of a compaction item that neither the gateway nor the backend can read."""
    return ClientFault(
        "The compaction item cannot be opened here: it was changed, or another key, another gateway"
        " or another backend made it.",
        code="invalid_compaction_item",
        param=param,
    )


class IllegalTransition(AssertionError):
    """A machine was asked for a step that its table lacks: our fault, never the peer's."""
