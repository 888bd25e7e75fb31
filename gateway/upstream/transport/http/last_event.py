"""What the unfinished event at the end of a body is worth. Pure.

A body that ends within an event was torn, and nobody knows what else was to come. Of an answer's
events only one that ends it is believed without its blank line, because nothing comes after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.codec import decode_lenient
from lanes.stream.backend_errors import is_error_event
from lanes.stream.passthrough import TERMINALS

if TYPE_CHECKING:
    from lanes.ports import Event


def is_torn(event: Event) -> bool:
    """Return whether an event is half of one, or one that others of the answer must follow."""
    name, data = event
    try:
        value = decode_lenient(data)
    except ValueError:
        return data.lstrip().startswith(b"{")
    if not isinstance(value, dict):
        return False
    named = value.get("type")
    kind = named if isinstance(named, str) else name or ""
    if kind in TERMINALS or is_error_event(name, kind, value):
        return False
    return kind.startswith("response.") or _goes_on(value)


def _goes_on(chunk: dict[str, Any]) -> bool:
    """Return whether a value is a chunk of Chat Completions that ends nothing."""
    choices = chunk.get("choices")
    if not isinstance(choices, list) or not (choices or chunk.keys() - {"usage"}):
        return False
    ends = (
        choice.get("finish_reason") or choice.get("message")
        for choice in choices
        if isinstance(choice, dict)
    )
    return not any(ends) and not (not choices and chunk.get("usage"))
