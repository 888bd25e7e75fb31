"""How a Chat Completions stream ends, well or badly. Pure."""

from __future__ import annotations

from typing import Any, Final

from gateway.upstream.chat.losses import NOTICES
from lanes.codec import check_depth, decode_lenient

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
    """An error as lanes.faults.reported reads it: an object of any keys, or a text."""
    if not isinstance(error, dict):
        error = {"message": error if isinstance(error, str) else "The backend reported an error."}
    return {"type": "error", "error": error}


def told_error(name: str | None, data: bytes) -> dict[str, Any] | None:
    """The error event for an event that is no chunk of an answer; None if it tells of no error.

    Known are `{"error": …}` of any type, an event called `error` with anything in it, and objects
    that are the error themselves. Raises ValueError for one that could not be written again.
    """
    try:
        value = decode_lenient(data)
    except ValueError:
        value = data.decode(errors="replace")
        return error_event(value[:_MAX_TEXT]) if name == "error" else None
    check_depth(value, data)
    if not isinstance(value, dict):
        return error_event(value) if name == "error" else None
    error = value.get("error")
    if isinstance(error, dict):
        return error_event(error)
    if error:
        text = error if isinstance(error, str) else value.get("message")
        return error_event({**value, "message": text})
    kind = "error" in (name, value.get("type"), value.get("object")) or value.get("error_type")
    message = value.get("message") or value.get("detail")
    if not kind and (not message or "choices" in value or "object" in value):
        return None
    text = message if isinstance(message, str) else data.decode(errors="replace")[:_MAX_TEXT]
    return error_event({**value, "message": text})
