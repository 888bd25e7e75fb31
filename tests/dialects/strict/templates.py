"""What chat templates refuse, as their sources say: one function a template, pure.

Each takes the messages of a request and says why its template raises, None if it does not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Message = dict[str, Any]
    Template = Callable[[list[Message]], str | None]


def _without_system(messages: list[Message]) -> list[Message]:
    return messages[1:] if messages and messages[0]["role"] == "system" else messages


def _alternation(messages: list[Message]) -> str | None:
    """User and assistant take turns, and the user begins."""
    for at, message in enumerate(messages):
        if (message["role"] == "user") != (at % 2 == 0):
            return "Conversation roles must alternate user/assistant/user/assistant/..."
    return None


def _outputs(messages: list[Message]) -> str | None:
    """The outputs of calls come right after them, all and no others."""
    owed: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in owed:
                return "an output without its call"
            owed.remove(message["tool_call_id"])
        elif owed:
            return "calls without their outputs"
        owed += [call["id"] for call in message.get("tool_calls", ())]
    return "calls without their outputs" if owed else None


def _ends(messages: list[Message]) -> str | None:
    return None if messages[-1]["role"] in ("user", "tool") else "Expected last role User or Tool"


def qwen(messages: list[Message]) -> str | None:
    """One system message, at the top; somebody has to ask something."""
    rest = _without_system(messages)
    if any(message["role"] == "system" for message in rest):
        return "System message must be at the beginning."
    if not any(message["role"] == "user" for message in rest):
        return "No user query found in messages."
    return _outputs(messages) or _ends(messages)


def alternating(messages: list[Message]) -> str | None:
    """What counts turns, outputs and the calls before them apart."""
    rest = _without_system(messages)
    kept = [one for one in rest if one["role"] != "tool" and "tool_calls" not in one]
    roles = [one["role"] for one in kept]
    doubled = any(
        pair == ("user", "user") for pair in zip(_roles(rest), _roles(rest[1:]), strict=False)
    )
    begun = rest[0]["role"] == "user" if rest else False
    if doubled or not begun or "system" in roles:
        return "Conversation roles must alternate user/assistant/user/assistant/..."
    return qwen(messages)


def mistral(messages: list[Message]) -> str | None:
    """Turns alternate but for calls and outputs; an id has nine letters and digits."""
    rest = _without_system(messages)
    turns = [one for one in rest if one["role"] != "tool" and "tool_calls" not in one]
    for before, after in zip(_roles(rest), _roles(rest[1:]), strict=False):
        if (before, after) == ("tool", "user"):
            return "Unexpected role 'user' after role 'tool'"
    for message in messages:
        ids = [call["id"] for call in message.get("tool_calls", ())]
        if any(not re.fullmatch("[a-zA-Z0-9]{9}", one) for one in ids):
            return "Tool call IDs should be alphanumeric strings with length 9!"
    return _alternation(turns) or _outputs(messages) or _ends(messages)


def gemma(messages: list[Message]) -> str | None:
    """No system and no tools; a content is one text."""
    if any(message["role"] == "system" for message in messages):
        return "System role not supported"
    if any(message["role"] == "tool" or "tool_calls" in message for message in messages):
        return "tools are not supported"
    if any(not isinstance(message["content"], str) for message in messages):
        return "content must be a string"
    return _alternation(messages) or _ends(messages)


def lenient(messages: list[Message]) -> str | None:
    return _outputs(messages) or _ends(messages)


def _roles(messages: list[Message]) -> list[str]:
    return [message["role"] for message in messages]
