"""MiniMax: it thinks within the text unless it is asked to split, and wants its thoughts back.

It reports errors beside the answer, with a status of 200.
"""

from __future__ import annotations

from gateway.upstream.chat.return_form import ReasoningReturn, ReturnForm
from gateway.upstream.chat.template import TemplateForm
from gateway.upstream.chat_service import chat_service

DIALECT = chat_service(
    "minimax",
    hosts=("api.minimax.io", "api.minimaxi.com", "api.minimaxi.chat"),
    traces=("minimax-request-id",),
    template=TemplateForm(repeats_ids=False),
    returned=ReturnForm(ReasoningReturn.ALWAYS, "reasoning_content"),
    extras=frozenset({"thinking", "mask_sensitive_info"}),
    asks={"reasoning_split": True},
)
