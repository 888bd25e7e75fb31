"""Bodies that are none, and fields that are wrong, on each route that reads a body."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.stored_things import BODIES, JSON, Asked, stored_things

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(scope="module")
async def on() -> AsyncIterator[Asked]:
    async with stored_things() as asked:
        yield asked


WRONG_BODIES: dict[str, tuple[int, bytes, dict[str, str]]] = {
    "nothing": (400, b"", JSON),
    "no JSON": (400, b"{", JSON),
    "more behind it": (400, b"{} {}", JSON),
    "an array": (400, b"[]", JSON),
    "null": (400, b"null", JSON),
    "a string": (400, b'"x"', JSON),
    "a number": (400, b"1", JSON),
    "not a number": (400, b'{"model":NaN}', JSON),
    "an infinity": (400, b'{"input":1e999}', JSON),
    "too deep": (400, b'{"input":' + b"[" * 5000 + b"]" * 5000 + b"}", JSON),
    "a byte order mark": (400, b"\xef\xbb\xbf{}", JSON),
    "latin-1": (400, b'{"model":"\xe9"}', JSON),
    "utf-16": (400, "{}".encode("utf-16"), {"content-type": "application/json; charset=utf-16"}),
    "a lone surrogate": (400, b'{"model":"\\ud800"}', JSON),
    "a zero byte": (400, b"\x00", JSON),
    "text": (415, b"{}", {"content-type": "text/plain"}),
    "a form": (415, b"a=1", {"content-type": "application/x-www-form-urlencoded"}),
    "another JSON": (415, b"{}", {"content-type": "application/vnd.api+json"}),
    "no type": (415, b"{}", {"content-type": ""}),
    "not packed": (400, b"{}", {**JSON, "content-encoding": "gzip"}),
    "not zstd": (400, gzip.compress(b"{}"), {**JSON, "content-encoding": "zstd"}),
    "packed in half": (400, gzip.compress(b"{}")[:-6], {**JSON, "content-encoding": "gzip"}),
    "brotli": (415, b"{}", {**JSON, "content-encoding": "br"}),
    "packed twice": (415, b"{}", {**JSON, "content-encoding": "gzip, gzip"}),
    "a bomb": (413, gzip.compress(b" " * 10_000_000), {**JSON, "content-encoding": "gzip"}),
    "too large": (413, b" " * 100_001, JSON),
    "said to be too large": (413, b"{}", {**JSON, "content-length": "99999999999"}),
}


@pytest.mark.parametrize("kind", WRONG_BODIES)
@pytest.mark.parametrize("path", BODIES)
async def test_a_wrong_body(on: Asked, path: str, kind: str) -> None:
    status, body, headers = WRONG_BODIES[kind]
    await on.refused(status, "POST", path, body, **headers)


SEALED_ELSEWHERE = {"type": "compaction", "encrypted_content": f"ml1.{'0' * 16}.{'A' * 40}"}
#: What is the same wherever the fields of a create are taken.
OF_ANY_CREATE: list[tuple[dict[str, Any], str]] = [
    ({"instructions": 5}, "instructions"),
    ({"temperature": "x"}, "temperature"),
    ({"top_p": True}, "top_p"),
    ({"max_output_tokens": 1.5}, "max_output_tokens"),
    ({"reasoning": {"effort": 1}}, "reasoning.effort"),
    ({"text": {"format": []}}, "text.format"),
    ({"include": "x"}, "include"),
    ({"tool_choice": 1}, "tool_choice"),
    ({"tools": [{"type": 1}]}, "tools[0].type"),
    ({"metadata": {"a": 1}}, "metadata"),
    ({"truncation": "x"}, "truncation"),
    ({"input": [{"type": 7}]}, "input[0].type"),
    *(
        (
            {"context_management": [{"type": "compaction", "compact_threshold": threshold}]},
            "context_management[0].compact_threshold",
        )
        for threshold in (-1, 0, "9", 1.5, 1e30, True)
    ),
]
WRONG_FIELDS: dict[str, list[tuple[dict[str, Any], str]]] = {
    "/responses": [
        ({"stream": "yes"}, "stream"),
        ({"stream_id": "a"}, "stream_id"),
        ({"background": 1}, "background"),
        ({"background": True, "store": False}, "store"),
        ({"generate": None}, "generate"),
        ({"store": "no"}, "store"),
        ({"model": 7}, "model"),
        ({"model": None}, "model"),
        ({"input": 7}, "input"),
        ({"input": [7]}, "input[0]"),
        ({"tools": "x"}, "tools"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"metadata": {"a" * 65: "b"}}, "metadata"),
        ({"previous_response_id": 7}, "previous_response_id"),
        ({"previous_response_id": "resp_none"}, "previous_response_id"),
        ({"conversation": {}}, "conversation.id"),
        ({"conversation": "conv_" + "0" * 32}, "conversation"),
        ({"conversation": "conv_1", "previous_response_id": "resp_1"}, "conversation"),
        ({"input": [SEALED_ELSEWHERE]}, "input[0]"),
        ({"input": [{"type": "item_reference", "id": "msg_none"}]}, "input"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": ""}]}, "input"),
    ],
    "/responses/input_tokens": [
        ({"input": "x"}, "model"),
        ({"model": "m", "input": 7}, "input"),
        ({"model": "m", "input": "x", "previous_response_id": "resp_none"}, "previous_response_id"),
        ({"model": "m", "input": [SEALED_ELSEWHERE]}, "input[0]"),
    ],
    "/responses/compact": [
        ({"input": "x"}, "model"),
        ({"model": "m", "input": 7}, "input"),
        ({"model": "m", "input": [7]}, "input[0]"),
        ({"model": "m", "input": "x", "conversation": "conv_1"}, "conversation"),
        ({"model": "m", "input": "x", "previous_response_id": "resp_none"}, "previous_response_id"),
        ({"model": "m", "input": [SEALED_ELSEWHERE]}, "input[0]"),
    ],
    "/conversations": [
        ({"items": 7}, "items"),
        ({"items": [7]}, "items[0]"),
        ({"items": [{"role": "user", "content": "x"}] * 21}, "items"),
        ({"items": [{"type": 7}]}, "items[0].type"),
        ({"items": [{"type": "item_reference", "id": "msg_x"}]}, "items[0]"),
        ({"items": [{"type": "compaction_trigger"}]}, "items[0]"),
        ({"items": [{"role": "user"}]}, "items[0].content"),
        ({"items": [{"role": 7, "content": "x"}]}, "items[0].role"),
        ({"items": [SEALED_ELSEWHERE]}, "items[0]"),
        ({"items": [{"type": "compaction"}]}, "items[0]"),
        ({"metadata": 7}, "metadata"),
        ({"metadata": {"a": "b" * 513}}, "metadata"),
    ],
    "/conversations/{c}": [({}, "metadata"), ({"metadata": [1]}, "metadata")],
    "/conversations/{c}/items": [
        ({}, "items"),
        ({"items": None}, "items"),
        ({"items": {}}, "items"),
        ({"items": [{"role": "user", "content": "x"}, SEALED_ELSEWHERE]}, "items[1]"),
    ],
}


@pytest.mark.parametrize("path", WRONG_FIELDS)
async def test_a_wrong_field_is_named(on: Asked, path: str) -> None:
    for fields, param in WRONG_FIELDS[path]:
        asked = {"model": "m", "input": "x", **fields} if path == "/responses" else fields
        for streams in ({}, {"stream": True}) if path == "/responses" else ({},):
            body = json.dumps({**streams, **asked}).encode()
            status = 404 if fields.get("conversation") == "conv_" + "0" * 32 else 400
            error = await on.refused(status, "POST", path, body, **JSON)
            assert error["param"] == param, (fields, error)


@pytest.mark.parametrize("path", [path for path in WRONG_FIELDS if "responses" in path])
async def test_the_fields_of_a_create_are_the_same_everywhere(on: Asked, path: str) -> None:
    for fields, param in OF_ANY_CREATE:
        body = json.dumps({"model": "m", "input": "x", **fields}).encode()
        error = await on.refused(400, "POST", path, body, **JSON)
        assert error["param"] == param, (fields, error)


async def test_items_that_are_too_large_are_named() -> None:
    async with stored_things(max_frame_bytes=10_000_000) as asked:
        for path in ("/conversations", "/conversations/{c}/items"):
            body = json.dumps({"items": [{"role": "user", "content": "x" * 5_000_000}]}).encode()
            error = await asked.refused(400, "POST", path, body, **JSON)
            assert (error["code"], error["param"]) == ("value_too_large", "items")
            assert "All fields may have 4194304 bytes together" in error["message"]
            assert "'items'" in error["message"]
