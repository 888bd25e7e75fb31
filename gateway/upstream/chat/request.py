"""A whole request of the Responses API -> the body of `POST /chat/completions` (D22). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw

from gateway.upstream.chat.content import present
from gateway.upstream.chat.keys import EXTRAS, KNOWN
from gateway.upstream.chat.messages import messages
from gateway.upstream.chat.return_form import ReturnForm
from gateway.upstream.chat.template import TemplateForm
from gateway.upstream.chat.templating import in_template
from gateway.upstream.chat.tools import tool_keys
from gateway.upstream.omissions import field_left_out
from lanes.codec import decode
from lanes.history.entries import input_items

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Keys with another form in Chat.
_MAPPED = frozenset(
    {"input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "text"}
    | {"max_output_tokens", "top_logprobs", "stream", "stream_options"}
)
#: Keys without a meaning in Chat, or with another one.
_UNKNOWN = frozenset(
    {"include", "previous_response_id", "store", "background", "truncation", "context_management"}
)
#: What the templates of most backends accept, which is the most that an unknown one may ask for.
TEMPLATE: Final = TemplateForm()
#: What backends take back of which nothing is known.
RETURNED: Final = ReturnForm()


def shape(
    whole: dict[str, Any],
    template: TemplateForm = TEMPLATE,
    returned: ReturnForm = RETURNED,
    extras: frozenset[str] = EXTRAS,
) -> dict[str, Any]:
    """Return the body in the form of Chat Completions, without keys that nobody knows there.

    Args:
        whole: The request in the form of the Responses API.
        template: What the backend accepts of a conversation.
        returned: What it takes back of what it sent beside text.
        extras: The keys that it knows besides those of the official client.
    """
    own = _MAPPED | _UNKNOWN
    rest = {key: value for key, value in whole.items() if key not in own}
    for key in sorted(rest.keys() - KNOWN - extras):
        field_left_out("Chat Completions", key, rest[key])
    return {
        **{key: value for key, value in rest.items() if key in KNOWN or key in extras},
        "messages": in_template(
            messages(whole.get("instructions"), _items(whole.get("input")), returned), template
        ),
        **tool_keys(whole),
        **_text(whole.get("text")),
        **_reasoning(whole.get("reasoning")),
        **_limit(whole),
        **_logprobs(whole),
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _items(given: Any) -> list[dict[str, Any]]:
    if not isinstance(given, list):
        return input_items(given)
    return [decode(bytes(item)) if isinstance(item, Raw) else item for item in given]


def _text(text: object) -> dict[str, Any]:
    """Return `response_format` unless it is the default: some servers do not know the key."""
    if not isinstance(text, dict):
        return {}
    keys = present(text, "verbosity")
    form = text.get("format")
    if isinstance(form, dict) and form.get("type") == "json_schema":
        schema = present(form, "name", "description", "schema", "strict")
        keys["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif isinstance(form, dict) and form.get("type") not in (None, "text"):
        keys["response_format"] = present(form)
    return keys


def _reasoning(reasoning: object) -> dict[str, Any]:
    effort = reasoning.get("effort") if isinstance(reasoning, dict) else None
    return {} if effort is None else {"reasoning_effort": effort}


def _limit(whole: Mapping[str, Any]) -> dict[str, Any]:
    """Return `max_tokens`, which all servers know, unless the client sends the newer key (D22)."""
    limit = whole.get("max_output_tokens")
    if limit is None or whole.get("max_completion_tokens") is not None:
        return {}
    return {"max_tokens": limit}


def _logprobs(whole: Mapping[str, Any]) -> dict[str, Any]:
    count, include = whole.get("top_logprobs"), whole.get("include")
    asked = isinstance(include, list) and "message.output_text.logprobs" in include
    if not (asked or count):
        return {}
    return {"logprobs": True, **({"top_logprobs": count} if count else {})}
