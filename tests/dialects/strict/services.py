"""What hosted services of Chat Completions refuse, as their documents and public reports say: data.

One judge reads it. The reports are those of docs/field-cases.md 12.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.dialects.strict.templates import alternating, mistral

if TYPE_CHECKING:
    from tests.dialects.strict.templates import Template

Body = dict[str, Any]

#: The keys of messages that every service takes.
_KEYS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}
_CALL_KEYS = {"id", "type", "function"}


@dataclass(frozen=True)
class Service:
    """What one service refuses.

    template   the order of messages that it takes
    refused    keys of the official client that it refuses
    closed     it refuses every key that is neither the official client's nor one of its `extras`
    extras     its own keys
    own        keys of the assistant's messages that it takes back
    on_calls   keys of calls that it takes back
    needs      the key that a message with calls must have
    named      the output of a call must name its tool
    """

    template: Template = alternating
    refused: frozenset[str] = frozenset()
    closed: bool = False
    extras: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()
    on_calls: frozenset[str] = frozenset()
    needs: str | None = None
    named: bool = False


_CONTENT = frozenset({"reasoning_content"})
SERVICES: dict[str, Service] = {
    "deepseek": Service(own=_CONTENT, needs="reasoning_content"),
    "moonshot": Service(own=_CONTENT, needs="reasoning_content"),
    "zai": Service(own=_CONTENT),
    "dashscope": Service(own=_CONTENT),
    "minimax": Service(own=_CONTENT | {"reasoning_details"}),
    "gemini": Service(
        closed=True,
        refused=frozenset({"metadata", "store", "parallel_tool_calls"}),
        on_calls=frozenset({"extra_content"}),
        own=frozenset({"extra_content"}),
        named=True,
    ),
    "mistral": Service(
        mistral,
        closed=True,
        refused=frozenset({"max_completion_tokens", "stream_options", "logprobs", "user"}),
        extras=frozenset({"random_seed", "safe_prompt", "prompt_mode"}),
    ),
    "cerebras": Service(
        closed=True,
        refused=frozenset(
            {"frequency_penalty", "presence_penalty", "logit_bias", "parallel_tool_calls"}
            | {"service_tier", "metadata", "store"}
        ),
        extras=frozenset({"disable_reasoning", "reasoning_format", "clear_thinking"}),
        own=frozenset({"reasoning"}),
    ),
    "together": Service(own=frozenset({"reasoning"})),
    "fireworks": Service(closed=True, own=_CONTENT, extras=frozenset({"top_k", "min_p"})),
    "copilot": Service(own=frozenset({"reasoning_text", "reasoning_opaque"})),
    "groq_chat": Service(refused=frozenset({"logprobs", "top_logprobs", "logit_bias"})),
    "openrouter_chat": Service(own=frozenset({"reasoning", "reasoning_details"})),
}


def refuses(name: str, body: Body, known: frozenset[str]) -> str | None:
    """Why a service refuses this request; None if it takes it.

    `known` are the keys of the official client.
    """
    service = SERVICES[name]
    if refused := service.refused & body.keys():
        return f"refused: {sorted(refused)}"
    if service.closed and (unknown := body.keys() - known - service.extras):
        return f"Extra inputs are not permitted: {sorted(unknown)}"
    for message in body["messages"]:
        if (why := _message(service, message)) is not None:
            return why
    return service.template(body["messages"])


def _message(service: Service, message: Body) -> str | None:
    role = message["role"]
    taken = _KEYS[role] | (service.own if role == "assistant" else set())
    taken = taken | ({"name"} if service.named and role == "tool" else set())
    if odd := message.keys() - taken:
        return f"messages: property {sorted(odd)} is unsupported"
    if service.named and role == "tool" and not message.get("name"):
        return "function_response.name: Name cannot be empty."
    calls = message.get("tool_calls", ())
    for call in calls:
        if odd := call.keys() - _CALL_KEYS - service.on_calls:
            return f"tool_calls: property {sorted(odd)} is unsupported"
    if calls and service.needs is not None and service.needs not in message:
        return f"{service.needs} is missing in assistant tool call message"
    return None
