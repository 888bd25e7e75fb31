"""GitHub Copilot: it thinks as `reasoning_text`, and seals that in `reasoning_opaque`."""

from __future__ import annotations

from gateway.upstream.chat.return_form import ReasoningReturn, ReturnForm
from gateway.upstream.chat_service import chat_service

DIALECT = chat_service(
    "copilot",
    hosts=(".githubcopilot.com",),
    returned=ReturnForm(ReasoningReturn.ALWAYS, "reasoning_text"),
    extras=frozenset({"thinking", "thinking_budget"}),
)
