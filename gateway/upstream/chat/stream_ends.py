"""The last event of a Chat Completions stream: its `finish_reason`, or an error. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.upstream.chat.omissions import NOTICES
from lanes.codec import decode_lenient, encode
from lanes.stream.backend_errors import is_error_event

if TYPE_CHECKING:
    from gateway.upstream.chat.chunks import Choice
    from lanes.ports import Event

#: `finish_reason`, in any vendor's words -> why the response is incomplete; None: it is complete.
_REASONS: Final[dict[str, str | None]] = {
    **dict.fromkeys(("stop", "tool_calls", "function_call"), None),
    **dict.fromkeys(("end_turn", "eos", "eos_token", "stop_sequence", "tool_use"), None),
    **dict.fromkeys(("length", "max_tokens", "model_length"), "max_output_tokens"),
    **dict.fromkeys(("content_filter", "content-filter", "safety", "sensitive"), "content_filter"),
    **dict.fromkeys(("recitation", "blocklist", "prohibited_content", "spii"), "content_filter"),
    **dict.fromkeys(("image_safety", "refusal", "guardrail_intervened"), "content_filter"),
}
#: Values of `finish_reason` that report a failure.
_FAULTS: Final = frozenset(
    {"error", "abort", "network_error", "insufficient_system_resource", "unexpected_tool_call"}
)
#: What a value holds that reports a call which the model could not write (Gemini, in any wrapping).
_MALFORMED: Final = "malformed_function_call"
#: Values of `finish_reason` with which some servers say that there is none yet.
_NONE: Final = frozenset({"", "null", "none", "undefined"})
_MAX_TEXT = 500


class Finishes:
    """The `finish_reason` of each choice of one answer: its first one counts."""

    def __init__(self) -> None:
        self._reasons: dict[int, object] = {}

    @staticmethod
    def says(finish: object) -> bool:
        """Return whether a value of `finish_reason` is one."""
        return bool(finish) and not (isinstance(finish, str) and finish.lower() in _NONE)

    def begin(self, choice: int) -> None:
        """Note that a choice has begun."""
        self._reasons.setdefault(choice, None)

    def finish(self, choice: int, reason: object) -> None:
        """Note that a choice has finished."""
        self._reasons[choice] = self._reasons[choice] or reason

    @property
    def any(self) -> bool:
        """Whether a choice has finished."""
        return any(self._reasons.values())

    @property
    def all(self) -> bool:
        """Whether all that have begun have finished."""
        return bool(self._reasons) and all(self._reasons.values())

    @property
    def reason(self) -> object:
        """The reason of the answer: one that cut it off, else the first; None if there is none."""
        reasons = [reason for reason in self._reasons.values() if reason]
        return next((one for one in reasons if is_cut(one)), next(iter(reasons), None))


def is_fault(finish: object) -> bool:
    """Return whether a `finish_reason` says that the backend failed."""
    word = finish.lower() if isinstance(finish, str) else ""
    return word in _FAULTS or _MALFORMED in word


def failure(choice: Choice) -> dict[str, Any] | None:
    """Return the `error` event of a choice that ends in a failure, None if it does not.

    OpenRouter ends an answer by `stop` where only the native reason tells that its provider failed.
    """
    if choice.error:
        return error_event(choice.error)
    for reason in (choice.finish_reason, choice.native_finish_reason):
        if choice.finish_reason and is_fault(reason):
            return error_event(f"The backend ended its answer: {reason}.")
    return None


def is_cut(finish: object) -> bool:
    """Return whether a `finish_reason` says that the answer was cut off."""
    return isinstance(finish, str) and _REASONS.get(finish.lower()) is not None


def terminal(finish: object, response: dict[str, Any]) -> dict[str, Any]:
    """Return the terminal event of a `finish_reason`; None counts as `stop`."""
    word = finish.lower() if isinstance(finish, str) else "stop" if finish is None else ""
    if word not in _REASONS:
        NOTICES.warning("finish", f"unknown finish_reason {finish!r:.64}; taken for an end")
    reason = _REASONS.get(word)
    if reason is None:
        return {"type": "response.completed", "response": {**response, "status": "completed"}}
    details = {"status": "incomplete", "incomplete_details": {"reason": reason}}
    return {"type": "response.incomplete", "response": {**response, **details}}


def error_event(error: object) -> dict[str, Any]:
    """Return the `error` event of an error object or text, as `backend_errors` reads it."""
    if not isinstance(error, dict):
        error = {"message": error if isinstance(error, str) else "The backend reported an error."}
    return {"type": "error", "error": error}


def reported_error(name: str | None, data: bytes) -> Event | None:
    """Return the event to pass on if an event that is not a chunk reports an error, else None.

    An error of any shape passes unchanged, for the run to read
    (`lanes.stream.backend_errors.is_error_event`). Only an event called `error` whose data is not
    an object is made into one.
    """
    try:
        value = decode_lenient(data)
    except ValueError:
        value = data.decode(errors="replace")[:_MAX_TEXT]
    if not isinstance(value, dict):
        return (None, encode(error_event(value))) if name == "error" else None
    kind = value.get("type")
    is_error = is_error_event(name, kind if isinstance(kind, str) else "", value)
    return (name, data) if is_error else None
