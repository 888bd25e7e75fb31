"""A large input is sent as a small one would be, whatever the dialect makes of it (D33)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.upstream.dialect import dialect_names, find
from gateway.upstream.large_request import large_request
from lanes.codec import encode

PLAIN = "QUJD" * 4096
TEXT = "words and more words " * 1024
URL = f"data:image/png;base64,{PLAIN}"
PARTS = [
    {"type": "input_image", "image_url": URL, "detail": "auto"},
    {"type": "input_file", "filename": "a.pdf", "file_data": URL},
    {"type": "input_text", "text": TEXT},
]
THOUGHT = [{"type": "summary_text", "text": TEXT}]
ARGUMENTS = json.dumps({"file": PLAIN, "rows": [[n] for n in range(4096)], "text": TEXT})
ITEMS: list[dict[str, Any]] = [
    {"type": "message", "role": "user", "content": PARTS},
    {"type": "reasoning", "id": "rs_1", "summary": THOUGHT, "encrypted_content": PLAIN},
    {"type": "reasoning", "id": "rs_2", "summary": THOUGHT, "encrypted_content": TEXT},
    {
        "type": "reasoning",
        "id": "rs_3",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": PLAIN}],
        "encrypted_content": PLAIN,
    },
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": ARGUMENTS},
    {"type": "function_call_output", "call_id": "c1", "output": PARTS},
    {"type": "custom_tool_call", "call_id": PLAIN, "name": "g", "input": TEXT},
    {"type": "custom_tool_call_output", "call_id": PLAIN, "output": URL},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": TEXT}, {"type": "refusal", "refusal": PLAIN}],
    },
    {"type": "message", "role": "assistant", "content": PLAIN},
]


@pytest.mark.parametrize("name", dialect_names())
def test_it_is_the_same_request(name: str) -> None:
    given = ITEMS
    if name == "mistral":  # its ids are hashes, and of the mark where an id is absurdly long
        given = [
            item | {"call_id": item["call_id"][:9]} if "call_id" in item else item for item in ITEMS
        ]
    dialect, items = find(name), [encode(item) for item in given]
    body = {"model": "m", "input": given, "instructions": TEXT}
    asked = large_request(dialect, body, items)
    assert json.loads(asked) == json.loads(dialect.request(body, items))
    assert asked == dialect.request(body, items)
