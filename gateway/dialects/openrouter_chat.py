"""OpenRouter by Chat Completions: its reasoning goes back with what its providers sealed."""

from __future__ import annotations

from gateway.upstream.chat.return_form import ReasoningReturn, ReturnForm
from gateway.upstream.chat_service import chat_service

DIALECT = chat_service(
    "openrouter_chat",
    returned=ReturnForm(ReasoningReturn.ALWAYS, "reasoning"),
)
