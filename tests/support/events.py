"""Server-sent events as a backend writes them, one function for each kind.

Names are short, as tests read like transcripts. What a backend may leave out is left out unless the
test asks for it; `reply` is a whole proper stream in the reference's shape.
"""

from __future__ import annotations

import json
from typing import Any

USAGE = {
    "input_tokens": 3,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 2,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 5,
}


def event(type: str, **fields: Any) -> bytes:
    """One event with its `event:` line, as the reference sends it."""
    return f"event: {type}\n".encode() + data({"type": type, **fields})


def data(payload: Any) -> bytes:
    """One event without an `event:` line; a string is taken as it is."""
    text = payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False)
    return f"data: {text}\n\n".encode()


def response(rid: str, status: str, **extra: Any) -> dict[str, Any]:
    head = {"id": rid, "object": "response", "created_at": 1, "status": status, "model": "m"}
    return {**head, "output": [], **extra}


def created(rid: str = "r1", **extra: Any) -> bytes:
    return event(
        "response.created", sequence_number=0, response=response(rid, "in_progress", **extra)
    )


def in_progress(rid: str = "r1", **extra: Any) -> bytes:
    return event(
        "response.in_progress", sequence_number=1, response=response(rid, "in_progress", **extra)
    )


def item_added(item: dict[str, Any], index: int = 0) -> bytes:
    return event("response.output_item.added", output_index=index, item=item)


def item_done(item: dict[str, Any], index: int = 0) -> bytes:
    return event("response.output_item.done", output_index=index, item=item)


def delta(text: str, item: str = "m1", index: int = 0, **extra: Any) -> bytes:
    place = {"item_id": item, "output_index": index, "content_index": 0}
    return event("response.output_text.delta", **place, delta=text, logprobs=[], **extra)


def completed(rid: str = "r1", output: list[Any] | None = None, **extra: Any) -> bytes:
    body = response(rid, "completed", **{"output": output or [], "usage": USAGE, **extra})
    return event("response.completed", response=body)


def incomplete(rid: str = "r1", reason: str = "max_output_tokens", **extra: Any) -> bytes:
    details = {"incomplete_details": {"reason": reason}, "usage": USAGE, **extra}
    return event("response.incomplete", response=response(rid, "incomplete", **details))


def failed(rid: str = "r1", message: str = "boom", code: str = "server_error") -> bytes:
    error = {"code": code, "message": message}
    return event("response.failed", response=response(rid, "failed", error=error))


def message(text: str, item: str = "m1", status: str = "completed") -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    head = {"id": item, "type": "message", "role": "assistant", "status": status}
    return {**head, "content": [part] if text else []}


def call(
    name: str, arguments: str = "{}", call_id: str = "c1", item: str = "f1", **extra: Any
) -> dict[str, Any]:
    head = {"id": item, "type": "function_call", "status": "completed", "call_id": call_id}
    return {**head, "name": name, "arguments": arguments, **extra}


def opened(item: str = "m1", index: int = 0) -> list[bytes]:
    """A message is opened and its text part too; deltas may follow."""
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    place = {"item_id": item, "output_index": index, "content_index": 0}
    return [
        item_added(message("", item, "in_progress"), index),
        event("response.content_part.added", **place, part=part),
    ]


def closed(text: str, item: str = "m1", index: int = 0) -> list[bytes]:
    """The end of a message whose deltas were `text`."""
    whole = message(text, item)
    place = {"item_id": item, "output_index": index, "content_index": 0}
    return [
        event("response.output_text.done", **place, text=text, logprobs=[]),
        event("response.content_part.done", **place, part=whole["content"][0]),
        item_done(whole, index),
    ]


def called(name: str, arguments: str = "{}", call_id: str = "c1", index: int = 0) -> list[bytes]:
    """A whole function call item."""
    whole = call(name, arguments, call_id)
    place = {"item_id": whole["id"], "output_index": index}
    return [
        item_added({**whole, "arguments": "", "status": "in_progress"}, index),
        event("response.function_call_arguments.delta", **place, delta=arguments),
        event("response.function_call_arguments.done", **place, arguments=arguments, name=name),
        item_done(whole, index),
    ]


def reply(*deltas: str, rid: str = "r1") -> list[bytes]:
    """A whole answer with one message, one list entry an event."""
    text = "".join(deltas)
    middle = [*opened(), *(delta(part) for part in deltas), *closed(text)]
    return [created(rid), in_progress(rid), *middle, completed(rid, [message(text)])]


def call_reply(name: str, arguments: str = "{}", call_id: str = "c1") -> list[bytes]:
    """A whole answer that ends with one function call."""
    ending = completed("r1", [call(name, arguments, call_id)])
    return [created(), in_progress(), *called(name, arguments, call_id), ending]
