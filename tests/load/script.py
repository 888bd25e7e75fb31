"""The right answer to a create."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

Events = list[dict[str, Any]]

WORDS = ["One ", "lane ", "of ", "many, ", "plainly \u2026 ", 'said "so".']


def answer(create: dict[str, Any], number: int = 1, status: str = "completed") -> Events:
    """All events of one response: reasoning, a message of two parts, a call."""
    base = {
        "id": f"resp_{number:032x}",
        "object": "response",
        "status": "in_progress",
        "previous_response_id": create.get("previous_response_id"),
        "metadata": create.get("metadata", {}),
        "output": [],
        "error": None,
    }
    items = [_reasoning(number), _message(number), _call(number)]
    events: Events = [
        {"type": "response.created", "response": base},
        {"type": "response.in_progress", "response": base},
    ]
    for index, item in enumerate(items):
        events += _streamed(index, item)
    end = {**base, "status": status, "output": items}
    events.append({"type": f"response.{status}", "response": end})
    for count, event in enumerate(events):
        event["sequence_number"] = count
        event["stream_id"] = create["stream_id"]
    return deepcopy(events)


def _reasoning(number: int) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": "Short is best."}]
    return {"id": f"rs_{number:032x}", "type": "reasoning", "summary": summary}


def _message(number: int) -> dict[str, Any]:
    content = [
        {"type": "output_text", "text": "".join(WORDS), "annotations": []},
        {"type": "refusal", "refusal": "No more."},
    ]
    return {"id": f"msg_{number:032x}", "type": "message", "role": "assistant", "content": content}


def _call(number: int) -> dict[str, Any]:
    call = {"id": f"fc_{number:032x}", "type": "function_call", "name": "look", "call_id": "call_1"}
    return {**call, "arguments": '{"at": 1}'}


def _streamed(index: int, item: dict[str, Any]) -> Events:
    place = {"item_id": item["id"], "output_index": index}
    added = {"id": item["id"], "type": item["type"]}
    events: Events = [{"type": "response.output_item.added", "output_index": index, "item": added}]
    if item["type"] == "reasoning":
        text = item["summary"][0]["text"]
        part = {**place, "summary_index": 0}
        events += _text("response.reasoning_summary_text", part, "text", text, [text[:4], text[4:]])
    elif item["type"] == "message":
        first, second = item["content"]
        events += _text(
            "response.output_text", {**place, "content_index": 0}, "text", first["text"], WORDS
        )
        refusal = second["refusal"]
        part = {**place, "content_index": 1}
        events += _text("response.refusal", part, "refusal", refusal, [refusal])
    else:
        whole = item["arguments"]
        name = "response.function_call_arguments"
        events += _text(name, place, "arguments", whole, [whole[:3], whole[3:]])
    return [*events, {"type": "response.output_item.done", "output_index": index, "item": item}]


def _text(name: str, place: dict[str, Any], field: str, whole: str, deltas: list[str]) -> Events:
    events = [{"type": f"{name}.delta", **place, "delta": delta} for delta in deltas]
    return [*events, {"type": f"{name}.done", **place, field: whole}]


def find(events: Events, kind: str, nth: int = 0) -> int:
    """Where the nth event of a type is."""
    return [at for at, event in enumerate(events) if event["type"] == kind][nth]
