"""Mistral: it thinks in parts of the content, and refuses every key that it does not know."""

from __future__ import annotations

import re

from gateway.upstream.chat.return_form import ReasoningReturn, ReturnForm
from gateway.upstream.chat.template import TemplateForm
from gateway.upstream.chat_service import chat_service

DIALECT = chat_service(
    "mistral",
    hosts=("api.mistral.ai", "codestral.mistral.ai"),
    traces=("mistral-correlation-id",),
    template=TemplateForm(user_follows=False, call_id=re.compile("[a-zA-Z0-9]{9}")),
    returned=ReturnForm(ReasoningReturn.ALWAYS, "content"),
    extras=frozenset({"random_seed", "safe_prompt", "prompt_mode", "guardrails"}),
    refuses=frozenset(
        {"max_completion_tokens", "stream_options", "logprobs", "top_logprobs", "logit_bias"}
        | {"seed", "service_tier", "store", "user", "verbosity", "prompt_cache_retention"}
        | {"safety_identifier", "modalities", "web_search_options"}
    ),
)
