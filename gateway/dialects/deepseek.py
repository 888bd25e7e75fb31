"""DeepSeek: what it thought before a call goes back with the call, or it refuses the history."""

from __future__ import annotations

from gateway.upstream.chat.return_form import ReasoningReturn, ReturnForm
from gateway.upstream.chat_service import chat_service

DIALECT = chat_service(
    "deepseek",
    hosts=("api.deepseek.com",),
    traces=("x-ds-trace-id",),
    returned=ReturnForm(ReasoningReturn.CALLS, "reasoning_content", requires=True),
    extras=frozenset({"thinking", "prefix"}),
)
