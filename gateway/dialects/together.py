"""Together AI."""

from __future__ import annotations

from gateway.upstream.chat.return_form import ReasoningReturn, ReturnForm
from gateway.upstream.chat_service import chat_service

DIALECT = chat_service(
    "together",
    hosts=("api.together.xyz", "api.together.ai"),
    returned=ReturnForm(ReasoningReturn.ALWAYS, "reasoning"),
    extras=frozenset(
        {"top_k", "min_p", "repetition_penalty", "safety_model", "chat_template_kwargs"}
        | {"context_length_exceeded_behavior", "reasoning"}
    ),
)
