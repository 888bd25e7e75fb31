"""Answers to a request of Chat Completions in forms that are nearly, or not at all, its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lanes.codec import encode
from tests.dialects.chatting import (
    HEAD,
    Chunk,
    body,
    call,
    chunk,
    hear,
    outcome,
    played,
    text,
    whole,
)
from tests.support.dialect_reading import check

ENTRY = {"index": 0, "id": "c", "function": {"name": "f", "arguments": '{"a":1}'}}


@pytest.mark.parametrize("entries", [ENTRY, {"0": ENTRY}, {"a": ENTRY}, ENTRY["function"]])
@pytest.mark.parametrize("key", ["delta", "message"])
def test_calls_without_their_list(entries: Any, key: str) -> None:
    heard = whole({**HEAD, "choices": [{"index": 0, key: {"tool_calls": entries}}]})
    check(heard)
    assert outcome(heard) == ["completed", 'function_call  f {"a":1}']


def test_two_calls_in_an_object() -> None:
    other = {**ENTRY, "index": 1, "id": "d"}
    heard = whole(chunk(tool_calls={"0": ENTRY, "1": other}))
    assert [item["call_id"] for item in heard.output] == ["c", "d"]


@pytest.mark.parametrize("size", [1, 7, 4096])
@pytest.mark.parametrize("pieces", [(), ("", "\ud83d")])
def test_b94_halves_of_a_character_around_the_announcement_of_a_call(
    pieces: tuple[str, ...], size: int
) -> None:
    first = call(0, "f", '{"a":"' if pieces else '{"a":"\ud83d', "c")
    chunks = [first, *(call(0, None, piece) for piece in pieces), call(0, None, '\ude00"}')]
    lines = [_escaped(one) for one in chunks]
    data = body([*lines, chunk("tool_calls")])
    heard = hear([data[at : at + size] for at in range(0, len(data), size)])
    check(heard)
    assert outcome(heard) == ["completed", 'function_call  f {"a":"😀"}']


def _escaped(one: Chunk) -> bytes:
    """A chunk whose halves are written as escapes."""
    return b"data: %b\n\n" % json.dumps(one).encode()


def test_text_as_in_plain_completions() -> None:
    pieces = [{**HEAD, "choices": [{"index": 0, "text": one}]} for one in ("a", " b")]
    heard = whole(*pieces)
    check(heard)
    assert outcome(heard) == ["completed", "message a b"]
    ending = {**HEAD, "choices": [{"index": 0, "text": "c", "finish_reason": "length"}]}
    assert outcome(played(*pieces, ending)) == ["incomplete", "message a bc"]


MESSAGE = {
    "type": "message",
    "id": "m",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "ab", "annotations": []}],
}
RESPONSE: dict[str, Any] = {
    "id": "r",
    "object": "response",
    "status": "completed",
    "output": [MESSAGE],
    "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
}
DELTA = {"type": "response.output_text.delta", "item_id": "m", "content_index": 0}
STREAM: list[dict[str, Any]] = [
    {"type": "response.created", "response": {**RESPONSE, "status": "in_progress", "output": []}},
    {"type": "response.output_item.added", "item": {**MESSAGE, "content": []}},
    *({**DELTA, "delta": one} for one in "ab"),
    {"type": "response.completed", "response": RESPONSE},
]
FORMS: list[list[dict[str, Any]]] = [
    [RESPONSE],
    [{"response": RESPONSE, "type": "response.completed"}],
    STREAM,
    STREAM[1:],
]


@pytest.mark.parametrize("events", FORMS)
@pytest.mark.parametrize("done", [True, False])
def test_an_answer_in_the_form_of_the_responses_api(
    events: list[dict[str, Any]], done: bool
) -> None:
    heard = played(*events, done=done)
    check(heard)
    assert outcome(heard) == ["completed", "message ab"]
    assert heard.terminal["usage"]["total_tokens"] == 5


def test_such_an_answer_that_is_cut_or_incomplete_or_failed() -> None:
    assert outcome(played(*STREAM[:-1], done=False)) == ["failed", "message ab"]
    cut = {**RESPONSE, "status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
    assert outcome(played(cut)) == ["incomplete", "message ab"]
    error = {"code": "server_error", "message": "boom"}
    failed = played({**RESPONSE, "status": "failed", "output": [], "error": error}).terminal
    assert (failed["status"], failed["error"]["message"]) == ("failed", "boom")


def test_an_event_of_the_responses_api_within_chunks_is_noise() -> None:
    heard = whole(*text("a"), {"type": "response.completed", "response": RESPONSE}, *text("b"))
    assert outcome(heard) == ["completed", "message ab"]


NOTHING: list[dict[str, Any]] = [
    {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    {"prompt_tokens": 0, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 0}},
    {"prompt_tokens": "0", "completion_tokens": None},
    {"queue_time": 0.1},
]


@pytest.mark.parametrize("nothing", NOTHING)
def test_c16_a_usage_without_tokens_is_none_beside_one_with_some(nothing: dict[str, Any]) -> None:
    counts = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    end = {**HEAD, "choices": [], "usage": nothing}
    chunks = [*text("a"), {**chunk("stop"), "usage": counts}, {**chunk(), "usage": nothing}, end]
    assert played(*chunks).terminal["usage"]["total_tokens"] == 5


@pytest.mark.parametrize(
    "reason",
    [
        "malformed_function_call",
        "UNEXPECTED_TOOL_CALL",
        "function_call_filter: MALFORMED_FUNCTION_CALL",
    ],
)
def test_c56_a_call_that_the_model_could_not_write_is_a_failure(reason: str) -> None:
    failed = played(*text("a"), chunk(reason)).terminal
    assert failed["status"] == "failed"
    assert reason in failed["error"]["message"]


@pytest.mark.parametrize("reason", ["RECITATION", "PROHIBITED_CONTENT", "blocklist", "SPII"])
def test_the_filters_of_gemini(reason: str) -> None:
    terminal = played(*text("a"), chunk(reason)).terminal
    assert terminal["incomplete_details"] == {"reason": "content_filter"}


@pytest.mark.parametrize("code", [0, "0", 200, "200", "OK", "success"])
def test_a_message_that_all_is_well_is_no_error(code: Any) -> None:
    well = b"data: %b\n\n" % encode({"code": code, "message": "ok"})
    heard = played(well, *text("a"), well, *text("b"), chunk("stop"))
    assert outcome(heard) == ["completed", "message ab"]
