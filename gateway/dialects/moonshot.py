"""Moonshot (Kimi): a message with calls must have its reasoning, an empty one if there is none."""

from __future__ import annotations

from gateway.upstream.chat.return_form import ReasoningReturn, ReturnForm
from gateway.upstream.chat.template import TemplateForm
from gateway.upstream.chat_service import chat_service

DIALECT = chat_service(
    "moonshot",
    hosts=("api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"),
    traces=("msh-request-id",),
    template=TemplateForm(repeats_ids=False),
    returned=ReturnForm(ReasoningReturn.ALWAYS, "reasoning_content", requires=True),
    extras=frozenset({"thinking", "partial"}),
)
