"""How a Chat Completions stream ends, well or badly. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.upstream.chat.omissions import NOTICES
from lanes.codec import decode_lenient, encode
from lanes.stream.backend_errors import tells_error

if TYPE_CHECKING:
    from lanes.ports import Event

#: `finish_reason`, whoever's word it is -> why the response is incomplete; None: it is complete.
_REASONS: Final[dict[str, str | None]] = {
    **dict.fromkeys(("stop", "tool_calls", "function_call"), None),
    **dict.fromkeys(("end_turn", "eos", "eos_token", "stop_sequence", "tool_use"), None),
    **dict.fromkeys(("length", "max_tokens", "model_length"), "max_output_tokens"),
    **dict.fromkeys(("content_filter", "safety", "sensitive"), "content_filter"),
}
#: Not ends but faults.
_FAULTS: Final = frozenset({"error", "abort", "network_error", "insufficient_system_resource"})
_MAX_TEXT = 500


def is_fault(finish: object) -> bool:
    """Whether a `finish_reason` says that the backend failed."""
    return isinstance(finish, str) and finish.lower() in _FAULTS


def is_cut(finish: object) -> bool:
    """Whether a `finish_reason` says that the answer was cut off."""
    return isinstance(finish, str) and _REASONS.get(finish.lower()) is not None


def terminal(finish: object, response: dict[str, Any]) -> dict[str, Any]:
    """The terminal event that a `finish_reason` asks for, None for none that was told."""
    known = finish.lower() if isinstance(finish, str) else "stop" if finish is None else ""
    if known not in _REASONS:
        NOTICES.warning("finish", f"unknown finish_reason {finish!r:.64}; taken for an end")
    reason = _REASONS.get(known)
    if reason is None:
        return {"type": "response.completed", "response": {**response, "status": "completed"}}
    told = {"status": "incomplete", "incomplete_details": {"reason": reason}}
    return {"type": "response.incomplete", "response": {**response, **told}}


def error_event(error: object) -> dict[str, Any]:
    """Return an error as `lanes.stream.backend_errors.reported` reads it: an object or a text."""
    if not isinstance(error, dict):
        error = {"message": error if isinstance(error, str) else "The backend reported an error."}
    return {"type": "error", "error": error}


def told_error(name: str | None, data: bytes) -> Event | None:
    """The event to pass on where one that is no chunk of an answer tells of an error, else None.

    An error in any shape goes as it is, for the run to read
    (`lanes.stream.backend_errors.tells_error`); only an event called `error` that is no object is
    made one.
    """
    try:
        value = decode_lenient(data)
    except ValueError:
        value = data.decode(errors="replace")[:_MAX_TEXT]
    if not isinstance(value, dict):
        return (None, encode(error_event(value))) if name == "error" else None
    kind = value.get("type")
    told = tells_error(name, kind if isinstance(kind, str) else "", value)
    return (name, data) if told else None
