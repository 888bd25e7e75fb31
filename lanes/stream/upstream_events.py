"""What a backend means by one event, in whatever form it wrote it (protocol.md 4)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lanes.codec import decode_lenient
from lanes.stream.backend_errors import is_error_event
from lanes.stream.parts import BY_DELTA
from lanes.stream.passthrough import BEGINNINGS, NOISE, TERMINALS
from lanes.surrogates import decode_halves

if TYPE_CHECKING:
    Event = dict[str, Any]

log = logging.getLogger("multilane.run")

#: The kind of an event that reports an error.
ERROR: Final = "error"
#: The status of a whole response -> its terminal event; any other is not over.
_ENDS: Final = {
    status: f"response.{status}" for status in ("completed", "incomplete", "failed", "cancelled")
}
#: The kinds of events that a response object may stand for.
_WRAPPED: Final = BEGINNINGS | TERMINALS | {"", "response", "message"}
#: The keys under which proxies put the answer of the backend, beside what they say themselves.
_WRAPPERS: Final = ("data", "result", "body")
_MAX_TEXT: Final = 500
#: The end of a Chat Completions stream, which some backends send here as well.
DONE: Final = b"[DONE]"

#: The key of a text that may end with half of a character.
_HALVED: Final = frozenset({"delta"})
_decode = msgspec.json.Decoder().decode


def read_event(data: bytes) -> Any:
    """Read an event; a delta keeps half of a character at its ends. Raises ValueError.

    Call `lanes.codec.check_depth` before encoding any of it again.
    """
    try:
        return _decode(data)
    except (ValueError, RecursionError):
        pass
    event = decode_halves(data, _HALVED)
    kept = event is not None and isinstance(kind := event.get("type"), str) and kind in BY_DELTA
    return event if kept else decode_lenient(data)


def meanings(name: str | None, value: object) -> list[tuple[str, Event]]:
    """Return the kinds and events that a decoded event stands for; none where it carries nothing.

    A list holds several. A response object without an event around it is one: the whole answer, or
    what the `event:` line says. `name` is that line, if there was one.
    """
    if (inner := unwrapped(value)) is not None:
        value = inner
    if not isinstance(value, dict):
        if isinstance(value, list):
            return [one for inner in value if type(inner) is dict for one in meanings(name, inner)]
        return [(ERROR, _error(value))] if name == ERROR and isinstance(value, str) else []
    named = value.get("type")
    kind = named if isinstance(named, str) else name or ""
    if _is_response(kind, value):
        kind, value = _around(kind, value)
    if is_error_event(name, kind, value):
        return [(ERROR, value)]
    return [(kind, value)] if kind.startswith("response.") and kind not in NOISE else []


def unwrapped(value: object) -> Event | None:
    """Return the answer, or the chunk, that some proxies put into an object of their own."""
    if not isinstance(value, dict) or "choices" in value or value.get("error"):
        return None
    for key in _WRAPPERS:
        inner = value.get(key)
        if isinstance(inner, dict) and (
            isinstance(inner.get("choices"), list) or inner.get("object") == "response"
        ):
            return inner
    return None


def says_something(event: tuple[str | None, bytes]) -> bool:
    """Return whether an event carries anything, a chunk of Chat Completions included."""
    name, data = event
    try:
        value = decode_lenient(data)
    except ValueError:
        return not carries_nothing(data)
    if bool(meanings(name, value)) or unwrapped(value) is not None:
        return True
    return isinstance(value, dict) and bool(value.get("choices"))


def carries_nothing(data: bytes) -> bool:
    """Return whether data that is no event has no part of one in it: a ping in words, say."""
    return b"{" not in data


def unreadable(name: str | None, data: bytes) -> Event | None:
    """Return the error that data which is not JSON stands for; None if it carries nothing."""
    if name == ERROR:
        return _error(data.decode(errors="replace"))
    if carries_nothing(data):
        return None
    # Never its words, which may be a client's.
    log.warning("unreadable upstream event: %d bytes that are not JSON", len(data))
    return _error("The upstream sent an event that is not JSON.")


def _error(text: str) -> Event:
    """Return the error event of what is only told in words."""
    return {"type": ERROR, "error": {"message": text[:_MAX_TEXT], "code": 502}}


def _is_response(kind: str, value: Event) -> bool:
    """Return whether an object is a response, and no event that holds one."""
    if kind not in _WRAPPED or isinstance(value.get("response"), dict):
        return False
    bare = kind == "" and "object" not in value and isinstance(value.get("output"), list)
    return bare or value.get("object") == "response"


def _around(kind: str, response: Event) -> tuple[str, Event]:
    """Return the event around a bare response object, by its kind or else by its status."""
    if not kind.startswith("response."):
        status = response.get("status")
        if status in ("queued", "in_progress"):
            return ERROR, _error(f"The backend answered with a response that is {status}.")
        kind = _ENDS.get(str(status), "response.completed")
    return kind, {"type": kind, "response": response}
