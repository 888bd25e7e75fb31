"""Z.ai and Zhipu (GLM): it thinks between calls, and takes its reasoning back."""

from __future__ import annotations

from gateway.upstream.chat.return_form import ReasoningReturn, ReturnForm
from gateway.upstream.chat_service import chat_service

DIALECT = chat_service(
    "zai",
    hosts=("api.z.ai", "open.bigmodel.cn"),
    returned=ReturnForm(ReasoningReturn.ALWAYS, "reasoning_content"),
    extras=frozenset(
        {"thinking", "clear_thinking", "do_sample", "tool_stream", "request_id", "user_id"}
    ),
)
