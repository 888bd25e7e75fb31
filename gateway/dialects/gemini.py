"""Google's Gemini, by its endpoint for OpenAI's clients.

It signs its calls and wants the signatures back, names the tool of each output, and refuses every
key that it does not know.
"""

from __future__ import annotations

from gateway.upstream.chat.template import TemplateForm
from gateway.upstream.chat_service import chat_service

DIALECT = chat_service(
    "gemini",
    hosts=("generativelanguage.googleapis.com",),
    template=TemplateForm(names_outputs=True),
    extras=frozenset({"extra_body", "google"}),
    refuses=frozenset(
        {"metadata", "store", "parallel_tool_calls", "logit_bias", "prompt_cache_key", "user"}
        | {"prompt_cache_retention", "safety_identifier", "service_tier", "verbosity"}
    ),
)
