"""Requests that the hosted API would not take."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.rehearsal import Rehearsal, assistant, user

CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "x"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
HALF = {**REASONING, "encrypted_content": "half"}
PART = "input[0].content[0]"


Case = tuple[dict[str, Any], str, str | None]


def part(role: str, **fields: Any) -> dict[str, Any]:
    return item(role=role, content=[fields])


def item(**fields: Any) -> dict[str, Any]:
    return {"input": [fields]}


TOP: list[Case] = [
    ({"model": None}, "model", "missing_required_parameter"),
    ({"model": 3}, "model", "invalid_type"),
    ({"input": None}, "input", "missing_required_parameter"),
    ({"input": []}, "input", "missing_required_parameter"),
    ({"input": {}}, "input", "invalid_type"),
    ({"stream_id": "a"}, "stream_id", "unknown_parameter"),
    ({"generate": False}, "generate", "unknown_parameter"),
    ({"type": "response.create"}, "type", "unknown_parameter"),
    ({"previous_response_id": "resp_1"}, "previous_response_id", "previous_response_not_found"),
    ({"background": True}, "background", None),
    ({"stream": "yes"}, "stream", "invalid_type"),
    ({"store": 1}, "store", "invalid_type"),
    ({"max_output_tokens": True}, "max_output_tokens", "invalid_type"),
    ({"max_output_tokens": 0}, "max_output_tokens", "integer_below_min_value"),
    ({"metadata": {"a": 1}}, "metadata.a", "invalid_type"),
    ({"truncation": "some"}, "truncation", "invalid_value"),
    ({"reasoning": {"effort": "lots"}}, "reasoning.effort", "invalid_value"),
    ({"text": {"format": []}}, "text.format", "invalid_type"),
    ({"text": {"format": {"type": "xml"}}}, "text.format.type", "invalid_value"),
    ({"tools": [3]}, "tools[0]", "invalid_type"),
    ({"tools": [{}]}, "tools[0].type", "missing_required_parameter"),
    ({"tools": [{"type": "function"}]}, "tools[0].name", "missing_required_parameter"),
    ({"tools": [{"type": "hammer"}]}, "tools[0].type", "invalid_value"),
    ({"tool_choice": {}}, "tool_choice.type", "missing_required_parameter"),
    ({"tool_choice": "some"}, "tool_choice", "invalid_value"),
]
ITEMS: list[Case] = [
    ({"input": [3]}, "input[0]", "invalid_type"),
    (item(), "input[0].type", "missing_required_parameter"),
    (item(type="nonsense"), "input[0].type", "invalid_value"),
    (item(type=["message"]), "input[0].type", "invalid_type"),
    (item(role="user"), "input[0].content", "missing_required_parameter"),
    (item(role="user", content=3), "input[0].content", "invalid_type"),
    (item(role="robot", content=""), "input[0].role", "invalid_value"),
    (item(role="user", content="", stream_id="a"), "input[0].stream_id", "unknown_parameter"),
    (item(role="user", content="", id="rs_1"), "input[0].id", "invalid_value"),
    (item(role="user", content="", status="cut"), "input[0].status", "invalid_value"),
    (part("user", type="output_text", text=""), f"{PART}.type", "invalid_value"),
    (part("assistant", type="input_text", text=""), f"{PART}.type", "invalid_value"),
    (part("assistant", type="output_text"), f"{PART}.text", "missing_required_parameter"),
    (part("assistant", type="refusal", refusal=3), f"{PART}.refusal", "invalid_type"),
    (item(type="function_call", call_id="c"), "input[0].name", "missing_required_parameter"),
    ({"input": [OUTPUT]}, "input", None),
    ({"input": [OUTPUT, CALL]}, "input", None),
    ({"input": [CALL, user("go on")]}, "input", None),
    ({"input": [CALL, {**OUTPUT, "type": "custom_tool_call_output"}]}, "input", None),
    ({"input": [user("a"), REASONING]}, "input", None),
    ({"input": [user("a"), REASONING, user("b")]}, "input", None),
    ({"input": [HALF, assistant("x")]}, "input", "invalid_encrypted_content"),
    ({"input": [{**user("a"), "id": "msg_1"}, {**user("b"), "id": "msg_1"}]}, "input", None),
]


@pytest.mark.parametrize(("fields", "param", "code"), TOP + ITEMS, ids=str)
def test_a_400_names_what_is_wrong(
    stand: Rehearsal, fields: dict[str, Any], param: str, code: str | None
) -> None:
    body = {"model": "m", "input": "hi", **fields}
    answer = stand.http.post("/responses", json=body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error.pop("message")
    assert error == {"type": "invalid_request_error", "param": param, "code": code}


@pytest.mark.parametrize(
    "fields",
    [{"conversation": "conv_1"}, {"prompt": {"id": "p"}}, item(type="item_reference", id="msg_1")],
)
def test_what_is_kept_nowhere_is_not_found(stand: Rehearsal, fields: dict[str, Any]) -> None:
    answer = stand.http.post("/responses", json={"model": "m", "input": "hi", **fields})
    assert answer.status_code == 404
    assert answer.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"3", b'{"model": NaN}', b"\xff", b"[" * 100_000, b'{"model": "\\ud800"}'],
    ids=lambda body: repr(body[:12]),
)
def test_what_is_no_json_object_is_refused(stand: Rehearsal, body: bytes) -> None:
    answer = stand.http.post("/responses", content=body)
    assert answer.status_code == 400
    assert json.loads(answer.content)["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": []},
        {"anyOf": {}},
        {"anyOf": [3]},
        {"enum": 3},
        {"type": 3},
        {"$ref": "#/$defs/x"},
        {"properties": {"a": {"type": "integer", "minimum": "x"}}},
        {"properties": {"a": {"$ref": "#"}}},
    ],
    ids=str,
)
def test_no_schema_breaks_it(stand: Rehearsal, schema: dict[str, Any]) -> None:
    tool = {"type": "function", "name": "f", "parameters": schema}
    body = {"model": "m", "input": "use the tool", "tools": [tool]}
    assert stand.http.post("/responses", json=body).status_code in (200, 400)


def test_other_items_and_whole_turns_pass(stand: Rehearsal) -> None:
    whole: list[dict[str, Any]] = [
        {"role": "developer", "content": "be kind"},
        {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image"}]},
        REASONING,
        CALL,
        OUTPUT,
        {"type": "web_search_call", "id": "ws_1"},
        user("b"),
    ]
    assert stand.say(whole).startswith(
        'The tool answered "x". You said "b". Earlier you said: "a".'
    )
