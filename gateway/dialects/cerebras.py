"""Cerebras: its reasoning goes back as `reasoning`, and it refuses every key it does not know."""

from __future__ import annotations

from gateway.upstream.chat.return_form import ReasoningReturn, ReturnForm
from gateway.upstream.chat_service import chat_service

DIALECT = chat_service(
    "cerebras",
    hosts=("api.cerebras.ai",),
    returned=ReturnForm(ReasoningReturn.ALWAYS, "reasoning"),
    extras=frozenset({"disable_reasoning", "reasoning_format", "clear_thinking"}),
    refuses=frozenset(
        {"frequency_penalty", "presence_penalty", "logit_bias", "parallel_tool_calls"}
        | {"service_tier", "metadata", "store", "prompt_cache_key", "verbosity"}
    ),
)
