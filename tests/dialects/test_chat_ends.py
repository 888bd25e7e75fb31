"""How streams of Chat Completions end, and answers in several choices."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dialects.chatting import (
    DONE,
    HEAD,
    USAGE,
    Chunk,
    body,
    chunk,
    counted,
    hear,
    outcome,
    played,
    text,
)
from tests.support.dialect_reading import check


def part(index: Any, finish: Any = None, **delta: Any) -> dict[str, Any]:
    """One choice."""
    return {"index": index, "delta": delta, "finish_reason": finish}


def parts(*choices: dict[str, Any], **more: Any) -> Chunk:
    """One chunk of these choices."""
    return {**HEAD, "choices": [*choices], **more}


CALL = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": '{"a":1}'}}
F = 'function_call  f {"a":1}'
CHOICES: list[tuple[str, list[Chunk], list[str]]] = [
    (
        "text, then a call",
        [
            parts(part(0, content="a")),
            parts(part(0, "stop")),
            parts(part(1, tool_calls=[CALL])),
            parts(part(1, "tool_calls")),
        ],
        ["message a", F],
    ),
    (
        "both in each chunk",
        [
            parts(part(0, content="a"), part(1, tool_calls=[{**CALL, "id": "c1"}])),
            parts(part(0, "tool_calls"), part(1, "tool_calls")),
        ],
        ["message a", F],
    ),
    (
        "both under one index",
        [parts(part(0, content="a"), part(0, tool_calls=[CALL])), parts(part(0, "tool_calls"))],
        ["message a", F],
    ),
    (
        "two calls at index 0 of their choices",
        [
            parts(part(0, tool_calls=[{**CALL, "id": None}])),
            parts(part(1, tool_calls=[{**CALL, "id": None}])),
            parts(part(0, "tool_calls"), part(1, "tool_calls")),
        ],
        [F, F],
    ),
    (
        "whole messages",
        [
            parts(
                {"index": 0, "message": {"content": "a"}, "finish_reason": "stop"},
                {"index": 1, "message": {"tool_calls": [CALL]}, "finish_reason": "tool_calls"},
            )
        ],
        ["message a", F],
    ),
    (
        "an empty one",
        [parts(part(0, content="a"), part(1)), parts(part(0, "stop")), parts(part(1, "stop"))],
        ["message a"],
    ),
]


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize(
    ("chunks", "wanted"), [one[1:] for one in CHOICES], ids=[one[0] for one in CHOICES]
)
def test_b93_choices_are_parts_of_one_answer(
    chunks: list[Chunk], wanted: list[str], done: bool
) -> None:
    heard = played(*chunks, counted(), done=done)
    assert check(heard)["usage"]["total_tokens"] == 5
    assert outcome(heard) == ["completed", *wanted]


def test_choices_are_alternatives_where_several_are_asked_for() -> None:
    chunks = [parts(part(0, content="a"), part(1, content="b")), parts(part(0, "stop"))]
    assert outcome(played(*chunks, n=2)) == ["completed", "message a"]


def test_a_choice_that_was_cut_cuts_the_answer() -> None:
    chunks = [parts(part(0, "stop", content="a")), parts(part(1, "length", content="b"))]
    assert outcome(played(*chunks)) == ["incomplete", "message a", "message b"]


@pytest.mark.parametrize("none", [None, "", "null", "None"])
def test_a_finish_reason_that_is_none(none: Any) -> None:
    heard = played(chunk(none, content="a"), chunk(none, content="b"), chunk("length"), counted())
    assert outcome(heard) == ["incomplete", "message ab"]
    assert hear([body([chunk(none, content="a")], done=False)]).run.state == "failed"


def test_a_finish_reason_with_each_piece_of_a_call() -> None:
    pieces = [
        {**CALL, "function": {"name": "f", "arguments": '{"a"'}},
        {"index": 0, "function": {"arguments": ":1}"}},
    ]
    chunks = [parts(part(0, "tool_calls", tool_calls=[piece])) for piece in pieces]
    assert outcome(played(*chunks)) == ["completed", F]


@pytest.mark.parametrize("done", [True, False])
def test_a_call_that_the_limit_cut_ends_the_answer(done: bool) -> None:
    half = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": '{"a"'}}
    heard = played(parts(part(0, tool_calls=[half])), chunk("length"), done=done)
    assert outcome(heard) == ["incomplete", 'function_call  f {"a"']


def test_content_after_the_finish_reason_counts() -> None:
    first = {**chunk("stop", content="a"), "usage": USAGE}
    assert outcome(played(first, *text("b"))) == ["completed", "message ab"]


@pytest.mark.parametrize("torn", [b'data: {"choi', b'data: {"choi\n\n', b"data: ", b"da"])
def test_a_torn_chunk_after_the_finish_reason_is_dropped(torn: bytes) -> None:
    heard = played(*text("a"), chunk("stop"), torn, done=False)
    assert outcome(heard) == ["completed", "message a"]
    heard = played(*text("a"), chunk("stop"), b'data: {"choi\n\n', counted())
    assert check(heard)["usage"]["total_tokens"] == 5


def test_usage_in_the_middle() -> None:
    heard = hear([body([counted(), *text("a"), counted(), *text("b"), chunk("stop")]), DONE])
    assert outcome(heard) == ["completed", "message ab"]
    assert heard.terminal["usage"]["total_tokens"] == 5


def _used(**counts: Any) -> dict[str, Any]:
    """The usage that comes of these counts in the last chunk."""
    usage: dict[str, Any] = played(*text("a"), chunk("stop"), counted(usage=counts)).terminal[
        "usage"
    ]
    return usage


CACHED: list[dict[str, Any]] = [
    {"cached_tokens": 4},
    {"prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 6},
    {"cache_read_input_tokens": 4},
    {"prompt_tokens_details": {"cached_tokens": 4}},
    {"prompt_tokens_details": None, "cached_tokens": 4.0},
    {"prompt_tokens_details": {}, "cached_tokens": "4"},
    {"prompt_tokens_details": {"cached_tokens": None}, "prompt_cache_hit_tokens": 4},
    {"prompt_tokens_details": {"cached_tokens": 0}, "cache_read_input_tokens": 4},
]


@pytest.mark.parametrize("cached", CACHED)
def test_b97_cached_tokens_by_any_name(cached: dict[str, Any]) -> None:
    usage = _used(prompt_tokens=10, completion_tokens=2, **cached)
    assert usage["input_tokens_details"]["cached_tokens"] == 4
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (10, 2, 12)


def test_cached_tokens_beside_the_input_are_part_of_it() -> None:
    usage = _used(
        input_tokens=3, output_tokens=2, cache_read_input_tokens=40, cache_creation_input_tokens=5
    )
    assert usage["input_tokens"] == 48
    assert usage["input_tokens_details"] == {"cached_tokens": 40, "cache_write_tokens": 5}
    assert usage["total_tokens"] == 50


@pytest.mark.parametrize("details", [None, {}, [], 7, {"reasoning_tokens": None}])
def test_details_that_say_nothing(details: Any) -> None:
    usage = _used(
        prompt_tokens="3",
        completion_tokens=2.0,
        prompt_tokens_details=details,
        completion_tokens_details=details,
    )
    assert usage["total_tokens"] == 5
    assert usage["input_tokens_details"] == {"cached_tokens": 0, "cache_write_tokens": 0}
    assert usage["output_tokens_details"] == {"reasoning_tokens": 0}


def test_usage_in_the_words_of_single_servers() -> None:
    groq = {**chunk("stop"), "x_groq": {"id": "r", "usage": USAGE}}
    assert played(*text("a"), groq).terminal["usage"]["total_tokens"] == 5
    timings = {"cache_n": 7, "prompt_n": 3, "predicted_n": 2, "predicted_ms": 1.5}
    usage = played(*text("a"), {**chunk("stop"), "timings": timings}).terminal["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (10, 2)
    assert usage["input_tokens_details"]["cached_tokens"] == 7


def test_the_last_of_growing_usages_counts() -> None:
    chunks = [
        {**one, "usage": {"prompt_tokens": 3, "completion_tokens": at}}
        for at, one in enumerate([*text("a", "b", "c"), chunk("stop")], 1)
    ]
    assert played(*chunks).terminal["usage"]["total_tokens"] == 7


LAST = [
    ({**chunk("stop"), "usage": USAGE}, "completed"),
    ({**chunk(), "choices": [], "usage": USAGE}, "failed"),
    (chunk(content="b"), "failed"),
    ({"error": {"message": "overloaded"}}, "failed"),
]


@pytest.mark.parametrize(("last", "status"), LAST)
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_b98_only_an_end_is_believed_without_its_blank_line(
    last: Chunk, status: str, end: bytes
) -> None:
    whole_body = body([*text("a"), last], done=False).removesuffix(b"\n\n") + end
    heard = hear([whole_body])
    assert check(heard)["status"] == status
    assert heard.texts("output_text") == "a"
