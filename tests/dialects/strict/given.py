"""What one item of the input may be."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Json = dict[str, Any]
    #: Says why a request with this item is refused, None if it is not.
    ItemRule = Callable[[Json], str | None]

#: What encrypted reasoning looks like.
SEAL = re.compile(r"[A-Za-z0-9+/=_-]{4,}")
BASIC = frozenset({"message", "reasoning", "function_call", "function_call_output"})
CUSTOM = frozenset({"custom_tool_call", "custom_tool_call_output"})


def kinds_of(kinds: frozenset[str]) -> ItemRule:
    def rule(item: Json) -> str | None:
        kind = item.get("type", "message")
        return None if kind in kinds else f"unknown input item type {kind}"

    return rule


def typed(item: Json) -> str | None:
    return None if isinstance(item.get("type"), str) else "an item without a type"


def stored(item: Json) -> str | None:
    return "nothing is stored" if item.get("type") == "item_reference" else None


def no_call(item: Json) -> str | None:
    kind = item.get("type", "message")
    return "a call becomes the output of a tool" if kind.startswith("function_call") else None


def call_strings(item: Json) -> str | None:
    """A call is named and answered by strings."""
    kind = item.get("type")
    if kind not in _CALL_KEYS:
        return None
    odd = [key for key in _CALL_KEYS[kind] if not isinstance(item.get(key), str)]
    if odd:
        return f"{odd[0]} must be a string"
    fits = "output" not in item or isinstance(item["output"], str | list)
    return None if fits else "output must be a string or a list"


_CALL_KEYS = {
    "function_call": ("call_id", "name", "arguments"),
    "custom_tool_call": ("call_id", "name", "input"),
    "function_call_output": ("call_id",),
    "custom_tool_call_output": ("call_id",),
}


def object_arguments(item: Json) -> str | None:
    if item.get("type") != "function_call":
        return None
    try:
        parsed = json.loads(item["arguments"])
    except (KeyError, TypeError, ValueError):
        parsed = None
    return None if isinstance(parsed, dict) else "arguments must be a JSON object"


def output_of(*parts: str) -> ItemRule:
    """An output is a string, or a list of these parts if there are any."""

    def rule(item: Json) -> str | None:
        output = item.get("output")
        if item.get("type") != "function_call_output" or isinstance(output, str):
            return None
        fits = parts and isinstance(output, list) and all(o.get("type") in parts for o in output)
        return None if fits else "output of a tool call should be input text"

    return rule


def assistant_parts(item: Json) -> str | None:
    if item.get("role") != "assistant":
        return None
    content = item.get("content")
    parts = content if isinstance(content, list) else [{}]
    fits = all(p.get("type") == "output_text" and isinstance(p.get("text"), str) for p in parts)
    return None if fits else "'type' must be 'output_text'"


def said_something(item: Json) -> str | None:
    said = item.get("role") != "assistant" or item.get("content")
    return None if said else "a message without content"


def one_text(item: Json) -> str | None:
    content = item.get("content")
    several = item.get("role") == "assistant" and isinstance(content, list) and len(content) != 1
    return "only content[0] is read" if several else None


def user_parts(item: Json) -> str | None:
    content = item.get("content")
    if item.get("role") not in ("user", "system", "developer") or not isinstance(content, list):
        return None
    bad = [part for part in content if part.get("type") not in ("input_text", "input_image")]
    return f"{bad[0].get('type')} is not supported" if bad else None


def known(item: Json) -> str | None:
    """llama.cpp tells items by their keys."""
    kind, role = item.get("type"), item.get("role")
    message = role in ("user", "system", "developer") or (role == "assistant" and kind == "message")
    listed = isinstance(item.get("content"), str | list)
    known = kind in BASIC - {"message"} or (message and listed)
    return None if known else "cannot determine type of 'item'"


def named_message(item: Json) -> str | None:
    named = isinstance(item.get("id"), str) and item.get("status") is not None
    return None if item.get("role") != "assistant" or named else "id and status are required"


def message_by_id(item: Json) -> str | None:
    """Require an id and refuse a status on the assistant's messages."""
    if item.get("role") != "assistant":
        return None
    if "status" in item:
        return "unknown status"
    return None if isinstance(item.get("id"), str) else "an id is required"


# Reasoning


def _reasoning(check: Callable[[Json], bool], why: str) -> ItemRule:
    return lambda item: why if item.get("type") == "reasoning" and not check(item) else None


def _joined(parts: Any) -> str:
    listed = parts if isinstance(parts, list) else []
    return "".join(part["text"] for part in listed if isinstance(part, dict) and "text" in part)


def _has_seal(item: Json) -> bool:
    sealed = item.get("encrypted_content")
    encrypted = isinstance(sealed, str) and SEAL.fullmatch(sealed) is not None
    return encrypted and not _is_plain(item)


def _is_plain(item: Json) -> bool:
    sealed = item.get("encrypted_content")
    return bool(sealed) and sealed in (_joined(item.get("summary")), _joined(item.get("content")))


def _first_text(item: Json) -> bool:
    content = item.get("content")
    first = content[0] if isinstance(content, list) and content else None
    return isinstance(first, dict) and isinstance(first.get("text"), str)


SEALED = _reasoning(_has_seal, "reasoning is not found, or cannot be verified")
UNSEALED = _reasoning(lambda item: not item.get("encrypted_content"), "no encrypted_content")
HAS_SUMMARY = _reasoning(lambda item: isinstance(item.get("summary"), list), "summary is missing")
HAS_ID = _reasoning(lambda item: isinstance(item.get("id"), str), "id is missing")
HAS_TEXT = _reasoning(_first_text, "item['content'] has no text")
ONE_TEXT = _reasoning(lambda item: len(item.get("content") or ()) < 2, "only content[0] is read")
NO_REASONING = _reasoning(lambda _: False, "reasoning is not taken")
SEALED_OR_TEXT = _reasoning(
    lambda item: _has_seal(item) or bool(_joined(item.get("content"))), "reasoning without either"
)
ANY_TEXT = _reasoning(
    lambda item: bool(_joined(item.get("content")) or _joined(item.get("summary"))), "no text"
)
PLAIN = _reasoning(_is_plain, "its text belongs in encrypted_content, and is read there alone")
