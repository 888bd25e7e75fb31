"""Groq by Chat Completions: it refuses its own reasoning, whatever the key."""

from __future__ import annotations

from gateway.upstream.chat.return_form import ReasoningReturn, ReturnForm
from gateway.upstream.chat_service import chat_service

DIALECT = chat_service(
    "groq_chat",
    traces=("x-groq-region",),
    returned=ReturnForm(ReasoningReturn.NEVER),
    extras=frozenset(
        {"reasoning_format", "include_reasoning", "documents", "search_settings"}
        | {"compound_custom", "citation_options", "exclude_domains", "include_domains"}
    ),
    refuses=frozenset({"logprobs", "top_logprobs", "logit_bias"}),
)
