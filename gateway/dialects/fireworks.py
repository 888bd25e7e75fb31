"""Fireworks AI: it refuses every key that it does not know."""

from __future__ import annotations

from gateway.upstream.chat.return_form import ReasoningReturn, ReturnForm
from gateway.upstream.chat_service import chat_service

DIALECT = chat_service(
    "fireworks",
    hosts=("api.fireworks.ai",),
    returned=ReturnForm(ReasoningReturn.ALWAYS, "reasoning_content"),
    extras=frozenset(
        {"top_k", "min_p", "typical_p", "repetition_penalty", "mirostat_target", "mirostat_lr"}
        | {"prompt_truncate_len", "context_length_exceeded_behavior", "reasoning_history"}
        | {"raw_output", "perf_metrics_in_response", "thinking", "ignore_eos", "echo"}
    ),
    refuses=frozenset({"store", "verbosity", "web_search_options"}),
)
