"""What a backend of Chat Completions gets back: data, one value for each dialect (D40)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ReasoningReturn(StrEnum):
    """Which of its messages a backend takes back with their reasoning.

    ALWAYS     all of them
    CALLS      those of the user's turns in which a tool is called
    TOOL_LOOP  those after the user's last message
    NEVER      none
    """

    ALWAYS = "always"
    CALLS = "calls"
    TOOL_LOOP = "tool_loop"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class ReturnForm:
    """How one backend of Chat Completions accepts a history.

    returns    which messages go back with their reasoning, and with what the backend sealed
    reasoning  the key of reasoning that does not say under which key it came; None: the key under
               which the backend last sent some, and nothing before it sent any
    requires   every message with calls must have that key, an empty text if there is none
    """

    returns: ReasoningReturn = ReasoningReturn.ALWAYS
    reasoning: str | None = None
    requires: bool = False
