"""One item of a history -> the form that a backend accepts (D21). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.upstream.history.replay_form import ReasoningForm
from lanes.codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.upstream.history.replay_form import ReplayForm

    Item = dict[str, Any]


def kind_of(item: Item) -> str:
    """Return the type of an item; a message may lack it."""
    kind = item.get("type") or ("message" if "role" in item else "")
    return kind if isinstance(kind, str) else ""


def is_of_assistant(item: Item) -> bool:
    """Return whether the assistant made the item: its words, its reasoning or its calls."""
    kind = kind_of(item)
    if kind == "message":
        return item.get("role") == "assistant"
    return not kind.endswith("_output") and kind != "mcp_approval_response"


def _message(item: Item, form: ReplayForm) -> Item | None:
    formed = {"type": "message", **item}
    formed.pop("status", None)
    if item.get("role") != "assistant":
        return formed
    formed_parts = (_part(part, form.parts) for part in _parts(item.get("content")))
    parts = [part for part in formed_parts if part is not None]
    if form.joins_text:
        text = "".join(part["text"] for part in parts if "text" in part)
        parts = [{"type": "output_text", "text": text}] if text else []
    if not parts:
        return None  # an empty message
    formed["content"] = parts
    if form.status is not None:
        formed["status"] = form.status
    return formed


def _parts(content: object) -> Iterable[Item]:
    if isinstance(content, str):
        return [{"type": "output_text", "text": content}]
    listed = content if isinstance(content, list) else ()
    return [part for part in listed if isinstance(part, dict)]


def _part(part: Item, keys: frozenset[str] | None) -> Item | None:
    """Return one text of the assistant, a refusal included, with the keys that stay."""
    text = part.get("text", part.get("refusal"))
    if not isinstance(text, str):
        return part if keys is None else None
    if not text:
        return None
    rest = (key for key in part if key not in _TEXT_KEYS and (keys is None or key in keys))
    return {"type": "output_text", "text": text, **{key: part[key] for key in rest}}


_TEXT_KEYS = frozenset({"type", "text", "refusal", "logprobs"})


def _reasoning(item: Item, form: ReplayForm) -> Item | None:
    summary, content = _text(item.get("summary")), _text(item.get("content"))
    text = content or summary
    if form.reasoning in (ReasoningForm.SEALED, ReasoningForm.WHOLE):
        whole = is_sealed(item) or (form.reasoning is ReasoningForm.WHOLE and content)
        return {**item, "summary": _listed(item.get("summary"))} if whole else None
    if form.reasoning is ReasoningForm.NONE or not text:
        return None
    formed = {key: value for key, value in item.items() if key not in _SEALS}
    if form.reasoning is ReasoningForm.OPEN:
        formed["summary"] = _listed(item.get("summary"))
        return formed if content else {k: formed[k] for k in formed if k != "content"}
    if form.reasoning is ReasoningForm.PLAIN:
        parts = [{"type": "summary_text", "text": text}]
        return {**formed, "summary": parts, "encrypted_content": text}
    return {**formed, "summary": [], "content": [{"type": "reasoning_text", "text": text}]}


_SEALS = frozenset({"encrypted_content", "status"})


def is_sealed(item: Item) -> bool:
    """Return whether reasoning is encrypted; some backends repeat the plain text there."""
    value = item.get("encrypted_content")
    if not isinstance(value, str) or len(value.split(None, 1)) != 1:
        return False
    return value not in (_text(item.get("summary")), _text(item.get("content")))


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(parts: object) -> str:
    texts = [part.get("text") for part in _listed(parts) if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))


def _call(item: Item, form: ReplayForm) -> Item:
    formed = {**item, "call_id": _call_id(item.get("call_id"))}
    formed.pop("status", None)
    if item["type"] == "function_call":
        arguments = _string(item.get("arguments") or "{}")
        formed["arguments"] = (
            arguments if not form.object_arguments or _is_object(arguments) else "{}"
        )
    return formed


def _output(item: Item, form: ReplayForm) -> Item:
    formed = {**item, "call_id": _call_id(item.get("call_id"))}
    formed.pop("status", None)
    output = item.get("output")
    if form.text_outputs or not isinstance(output, list):
        formed["output"] = _output_text(output)
    return formed


def _output_text(output: object) -> str:
    """Return one text; any other part is named in it, so that the model knows of it."""
    if not isinstance(output, list):
        return _string(output)
    texts = []
    for part in output:
        text = part.get("text") if isinstance(part, dict) else None
        kind = part.get("type") if isinstance(part, dict) else None
        texts.append(text if isinstance(text, str) else f"[{kind}]")
    return "\n".join(texts)


def _call_id(value: object) -> object:
    return value if value is None or isinstance(value, str) else _string(value)


def _string(value: object) -> str:
    return value if isinstance(value, str) else encode(value).decode()


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(decode(arguments.encode()), dict)
    except ValueError:
        return False


def _call_text(item: Item, call_names: dict[str, str]) -> Item:
    name = call_names[_string(item.get("call_id"))] = _string(item.get("name"))
    arguments = _string(item.get("arguments", item.get("input")))
    text = f"[Called {name} with {arguments}]"
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "content": content}


def _result_text(item: Item, call_names: dict[str, str]) -> Item:
    call_id = _string(item.get("call_id"))
    text = f"[Output of {call_names.get(call_id, call_id)}: {_output_text(item.get('output'))}]"
    return {"type": "message", "role": "user", "content": text}


#: Type of an item -> what brings it into the backend's form; None where nothing is left of it.
ITEM_FORMS = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _call,
    "custom_tool_call": _call,
    "function_call_output": _output,
    "custom_tool_call_output": _output,
}
#: Type of an item -> what describes it in a message, for backends that accept no calls.
CALL_TEXTS = {
    "function_call": _call_text,
    "custom_tool_call": _call_text,
    "function_call_output": _result_text,
    "custom_tool_call_output": _result_text,
}
