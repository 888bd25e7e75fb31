"""The form in which one backend accepts a history: data, one value for each dialect (D21)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Kinds of items of which every key goes back: no backend is known to refuse one.
OPEN_KINDS: Final[Mapping[str, frozenset[str] | None]] = dict.fromkeys(
    [
        *("message", "reasoning", "function_call", "function_call_output"),
        *("custom_tool_call", "custom_tool_call_output", "web_search_call", "file_search_call"),
        *("code_interpreter_call", "image_generation_call", "mcp_call", "mcp_list_tools"),
        *("mcp_approval_request", "mcp_approval_response"),
    ]
)
#: The kinds that every backend knows, with the keys that every one of them reads.
CLOSED_KINDS: Final[Mapping[str, frozenset[str] | None]] = {
    "message": frozenset({"type", "role", "content", "status"}),
    "reasoning": frozenset({"type", "id", "summary", "content", "encrypted_content"}),
    "function_call": frozenset({"type", "call_id", "name", "arguments"}),
    "function_call_output": frozenset({"type", "call_id", "output"}),
}
#: The same of custom tools, for the backends that know them.
CUSTOM_KINDS: Final[Mapping[str, frozenset[str] | None]] = {
    "custom_tool_call": frozenset({"type", "call_id", "name", "input"}),
    "custom_tool_call_output": frozenset({"type", "call_id", "output"}),
}


class ReasoningForm(StrEnum):
    """What a backend accepts of its own reasoning.

    SEALED  whole items with `encrypted_content`, and no others
    WHOLE   the sealed ones, and whole items with their text in `content`
    OPEN    summary and text, never `encrypted_content`
    TEXT    one text in `content`, taken from the summary where there is no other
    PLAIN   one text, unencrypted, as `encrypted_content`
    NONE    nothing
    """

    SEALED = "sealed"
    WHOLE = "whole"
    OPEN = "open"
    TEXT = "text"
    PLAIN = "plain"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class ReplayForm:
    """How one backend accepts a history.

    kinds             the types of items it accepts, each with the keys that stay (None: all keys);
                      None accepts any item as it is, except for reasoning
    reasoning         what it accepts of its own reasoning
    parts             the keys of an assistant's text that stay beside `type` and `text`; None: all
                      but `logprobs`
    needs_id          the types of the assistant's items that must have an id
    status            the status of every assistant message, whole or cut; None sends none
    joins_text        it reads one text of an assistant message, so several texts become one, and so
                      do consecutive messages of one phase
    object_arguments  the arguments of a call must be a JSON object; others are sent as `{}`
    text_outputs      the output of a call must be one text
    calls_as_text     it accepts no calls, so calls and their outputs are described in messages
    closes_input      it would continue the assistant's last message, so a user's "Continue." is
                      appended
    """

    kinds: Mapping[str, frozenset[str] | None] | None = None
    reasoning: ReasoningForm = ReasoningForm.SEALED
    parts: frozenset[str] | None = frozenset()
    needs_id: frozenset[str] = frozenset()
    status: str | None = None
    joins_text: bool = False
    object_arguments: bool = False
    text_outputs: bool = False
    calls_as_text: bool = False
    closes_input: bool = False
