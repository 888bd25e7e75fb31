"""Asks the backend of the chat dialect, and reads what it is asked."""

from __future__ import annotations

import json
from typing import Any

from gateway.dialects.chat import DIALECT
from lanes.codec import encode
from tests.dialects.chat_judge import refuses

Body = dict[str, Any]
Item = dict[str, Any]


def asked(*items: Item, **body: Any) -> Body:
    """What the backend is asked, accepted by the judge."""
    data = [encode(item) for item in items or ({"role": "user", "content": "hi"},)]
    made: Body = json.loads(DIALECT.request({"model": "m", **body}, data))
    assert refuses(made) is None, (refuses(made), made)
    return made


def in_short(*items: Item, **body: Any) -> list[Any]:
    """Its messages, short: role and content, calls as `call:ID`, outputs as `ID=output`."""
    return [_short(message) for message in asked(*items, **body)["messages"]]


def _short(message: Item) -> Any:
    role, content = message["role"], message["content"]
    if role == "tool":
        return f"{message['tool_call_id']}={content}"
    if "tool_calls" in message:
        calls = " ".join(f"call:{call['id']}" for call in message["tool_calls"])
        return f"assistant: {content} {calls}".replace("  ", " ")
    return f"{role}: {content}" if isinstance(content, str) else (role, content)


def user(content: Any = "hi") -> Item:
    return {"type": "message", "role": "user", "content": content}


def assistant(text: str) -> Item:
    content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    return {"id": "msg_1", "type": "message", "role": "assistant", "content": content}


def call(call_id: str, arguments: str = "{}") -> Item:
    head = {"id": "fc_1", "type": "function_call", "status": "completed"}
    return {**head, "call_id": call_id, "name": "f", "arguments": arguments}


def output(call_id: str, value: Any = "ok") -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": value}


def text(value: str) -> Item:
    return {"type": "input_text", "text": value}
