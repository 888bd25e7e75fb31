"""One item of a history as a backend takes it. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from lanes.codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.upstream.history.replay import Replay

    Item = dict[str, Any]


class Reasoning(StrEnum):
    """What of its reasoning a backend takes back.

    SEALED  whole items with `encrypted_content`, and no others
    WHOLE   those, and whole items with their text in `content`
    OPEN    summary and text, never `encrypted_content`
    TEXT    one text in `content`, that of the summary if need be
    PLAIN   one text, in the clear, as `encrypted_content`
    NONE    nothing
    """

    SEALED = "sealed"
    WHOLE = "whole"
    OPEN = "open"
    TEXT = "text"
    PLAIN = "plain"
    NONE = "none"


def kind_of(item: Item) -> str:
    """The type of an item; a message may do without it."""
    kind = item.get("type") or ("message" if "role" in item else "")
    return kind if isinstance(kind, str) else ""


def assistants(item: Item) -> bool:
    """Whether the assistant made it: its words, its reasoning, its calls."""
    kind = kind_of(item)
    if kind == "message":
        return item.get("role") == "assistant"
    return not kind.endswith("_output") and kind != "mcp_approval_response"


def _message(item: Item, form: Replay) -> Item | None:
    made = {"type": "message", **item}
    made.pop("status", None)
    if item.get("role") != "assistant":
        return made
    said = (_part(part, form.parts) for part in _parts(item.get("content")))
    parts = [part for part in said if part is not None]
    if form.joins:
        text = "".join(part["text"] for part in parts if "text" in part)
        parts = [{"type": "output_text", "text": text}] if text else []
    if not parts:
        return None  # nothing was said
    made["content"] = parts
    if form.status is not None:
        made["status"] = form.status
    return made


def _parts(content: object) -> Iterable[Item]:
    if isinstance(content, str):
        return [{"type": "output_text", "text": content}]
    listed = content if isinstance(content, list) else ()
    return [part for part in listed if isinstance(part, dict)]


def _part(part: Item, keys: frozenset[str] | None) -> Item | None:
    """One part of what the assistant said; a refusal is that, too."""
    text = part.get("text", part.get("refusal"))
    if not isinstance(text, str):
        return part if keys is None else None
    if not text:
        return None
    rest = (key for key in part if key not in _TEXT_KEYS and (keys is None or key in keys))
    return {"type": "output_text", "text": text, **{key: part[key] for key in rest}}


_TEXT_KEYS = frozenset({"type", "text", "refusal", "logprobs"})


def _reasoning(item: Item, form: Replay) -> Item | None:
    summary, content = _text(item.get("summary")), _text(item.get("content"))
    text = content or summary
    if form.reasoning in (Reasoning.SEALED, Reasoning.WHOLE):
        whole = sealed(item) or (form.reasoning is Reasoning.WHOLE and content)
        return {**item, "summary": _listed(item.get("summary"))} if whole else None
    if form.reasoning is Reasoning.NONE or not text:
        return None
    made = {key: value for key, value in item.items() if key not in _SEALS}
    if form.reasoning is Reasoning.OPEN:
        made["summary"] = _listed(item.get("summary"))
        return made if content else {k: made[k] for k in made if k != "content"}
    if form.reasoning is Reasoning.PLAIN:
        told = [{"type": "summary_text", "text": text}]
        return {**made, "summary": told, "encrypted_content": text}
    return {**made, "summary": [], "content": [{"type": "reasoning_text", "text": text}]}


_SEALS = frozenset({"encrypted_content", "status"})


def sealed(item: Item) -> bool:
    """Whether it is encrypted: some backends have the plain text there once more."""
    value = item.get("encrypted_content")
    if not isinstance(value, str) or len(value.split(None, 1)) != 1:
        return False
    return value not in (_text(item.get("summary")), _text(item.get("content")))


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(parts: object) -> str:
    texts = [part.get("text") for part in _listed(parts) if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))


def _call(item: Item, form: Replay) -> Item:
    made = {**item, "call_id": _name(item.get("call_id"))}
    made.pop("status", None)
    if item["type"] == "function_call":
        arguments = _string(item.get("arguments") or "{}")
        made["arguments"] = arguments if not form.objects or _is_object(arguments) else "{}"
    return made


def _output(item: Item, form: Replay) -> Item:
    made = {**item, "call_id": _name(item.get("call_id"))}
    made.pop("status", None)
    output = item.get("output")
    if form.text_outputs or not isinstance(output, list):
        made["output"] = _told_output(output)
    return made


def _told_output(output: object) -> str:
    """One text; what is none of it is named, so that the model knows of it."""
    if not isinstance(output, list):
        return _string(output)
    told = []
    for part in output:
        text = part.get("text") if isinstance(part, dict) else None
        kind = part.get("type") if isinstance(part, dict) else None
        told.append(text if isinstance(text, str) else f"[{kind}]")
    return "\n".join(told)


def _name(value: object) -> object:
    return value if value is None or isinstance(value, str) else _string(value)


def _string(value: object) -> str:
    return value if isinstance(value, str) else encode(value).decode()


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(decode(arguments.encode()), dict)
    except ValueError:
        return False


def _told_call(item: Item, names: dict[str, str]) -> Item:
    name = names[_string(item.get("call_id"))] = _string(item.get("name"))
    given = _string(item.get("arguments", item.get("input")))
    text = f"[Called {name} with {given}]"
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "content": content}


def _told_result(item: Item, names: dict[str, str]) -> Item:
    call_id = _string(item.get("call_id"))
    text = f"[Output of {names.get(call_id, call_id)}: {_told_output(item.get('output'))}]"
    return {"type": "message", "role": "user", "content": text}


FORMS = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _call,
    "custom_tool_call": _call,
    "function_call_output": _output,
    "custom_tool_call_output": _output,
}
TOLD = {
    "function_call": _told_call,
    "custom_tool_call": _told_call,
    "function_call_output": _told_result,
    "custom_tool_call_output": _told_result,
}
