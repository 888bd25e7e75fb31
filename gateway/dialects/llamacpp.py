"""llama.cpp's own server (`llama-server`, or its Python wheel)."""

from __future__ import annotations

import logging
from typing import Any

from gateway.upstream.dialect import Dialect
from lanes.codec import decode
from lanes.profile import Profile

log = logging.getLogger("multilane.dialect")


def replay(item: dict[str, Any]) -> dict[str, Any] | None:
    """An item as llama.cpp takes it: always typed, with the keys it reads and no others."""
    kind = item.get("type") or ("message" if "role" in item else "")
    form = _FORMS.get(kind)
    if form is None:
        log.warning("llama.cpp takes no input item of type %.64r; left out", kind)
        return None
    return form(item)


def _message(item: dict[str, Any]) -> dict[str, Any]:
    content = item.get("content")
    if item.get("role") == "assistant" and isinstance(content, list):
        content = [{"type": "output_text", "text": text} for text in _texts(content)]
    return {"type": "message", "role": item.get("role"), "content": content}


def _reasoning(item: dict[str, Any]) -> dict[str, Any] | None:
    # It refuses a reasoning item without text, and reads the first part of it only.
    text = "".join(_texts(item.get("content"))) or "".join(_texts(item.get("summary")))
    content = [{"type": "reasoning_text", "text": text}]
    return {"type": "reasoning", "summary": [], "content": content} if text else None


def _call(item: dict[str, Any]) -> dict[str, Any]:
    call = {key: item.get(key) for key in ("type", "call_id", "name", "arguments")}
    # It parses the arguments again for its chat template, and fails on what is not an object.
    try:
        parsed = decode(str(call["arguments"]).encode())
    except ValueError:
        parsed = None
    return call if isinstance(parsed, dict) else {**call, "arguments": "{}"}


def _output(item: dict[str, Any]) -> dict[str, Any]:
    return {key: item.get(key) for key in ("type", "call_id", "output")}


def _texts(parts: object) -> list[str]:
    """The texts of an item's parts; a refusal is what the assistant said, too."""
    found = []
    for part in parts if isinstance(parts, list) else ():
        text = part.get("text", part.get("refusal")) if isinstance(part, dict) else None
        if isinstance(text, str):
            found.append(text)
    return found


_FORMS = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _call,
    "function_call_output": _output,
}

DIALECT = Dialect(
    "llamacpp",
    Profile(counts_limit=True),
    keeps_nulls=False,
    replay=replay,
    marks=("llamacpp", "llama.cpp"),
)
