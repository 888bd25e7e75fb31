"""Alibaba Cloud Model Studio (DashScope, Qwen), in its compatible mode."""

from __future__ import annotations

from gateway.upstream.chat.return_form import ReasoningReturn, ReturnForm
from gateway.upstream.chat_service import chat_service

DIALECT = chat_service(
    "dashscope",
    hosts=("dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "dashscope-us.aliyuncs.com"),
    returned=ReturnForm(ReasoningReturn.ALWAYS, "reasoning_content"),
    extras=frozenset(
        {"enable_thinking", "thinking_budget", "preserve_thinking", "enable_search", "top_k"}
        | {
            "search_options",
            "repetition_penalty",
            "translation_options",
            "vl_high_resolution_images",
        }
    ),
)
