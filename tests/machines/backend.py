"""What a backend says, in the least words: events for the tests of a run."""

from __future__ import annotations

from typing import Any

Event = dict[str, Any]
Item = dict[str, Any]


def created(**fields: Any) -> Event:
    response = {"id": "r1", "object": "response", "status": "in_progress", "output": [], **fields}
    return {"type": "response.created", "sequence_number": 0, "response": response}


def message(text: str | None = "", **fields: Any) -> Item:
    """A message; without text it has no part."""
    content = [] if text is None else [{"type": "output_text", "text": text, "annotations": []}]
    whole = {"id": "m1", "type": "message", "role": "assistant", "status": "completed"}
    return {**whole, "content": content, **fields}


def reasoning(text: str = "", **fields: Any) -> Item:
    content = [{"type": "reasoning_text", "text": text}] if text else []
    return {"id": "rs1", "type": "reasoning", "summary": [], "content": content, **fields}


def call(arguments: str = "{}", **fields: Any) -> Item:
    whole = {"id": "f1", "type": "function_call", "call_id": "c1", "name": "look"}
    return {**whole, "arguments": arguments, "status": "completed", **fields}


def added(item: Item, index: int | None = None) -> Event:
    """The item as it is announced: nothing of it yet."""
    blank: Item = {key: value for key, value in item.items() if key != "status"}
    blank |= {key: "" for key in ("arguments", "input") if key in item}
    blank |= {key: [] for key in ("content", "summary") if key in item}
    return _placed({"type": "response.output_item.added", "item": blank}, index)


def done(item: Item, index: int | None = None) -> Event:
    return _placed({"type": "response.output_item.done", "item": item}, index)


def delta(text: Any, item_id: str | None = "m1", kind: str = "output_text", **fields: Any) -> Event:
    """A delta of any kind; without a name for its item where `item_id` is None."""
    event = {"type": f"response.{kind}.delta", "delta": text, **fields}
    return event if item_id is None else {**event, "item_id": item_id}


def args(text: Any, item_id: str | None = "f1", **fields: Any) -> Event:
    return delta(text, item_id, "function_call_arguments", **fields)


def completed(output: Any = (), **fields: Any) -> Event:
    response = {"id": "r1", "status": "completed", "output": output, **fields}
    return {"type": "response.completed", "response": response}


def ended(how: str, **fields: Any) -> Event:
    response = {"id": "r1", "status": how, "output": [], **fields}
    return {"type": f"response.{how}", "response": response}


def _placed(event: Event, index: int | None) -> Event:
    return event if index is None else {**event, "output_index": index}
