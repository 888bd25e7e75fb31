"""What an answer of Chat Completions says: texts, reasoning, refusals, and whole messages."""

from __future__ import annotations

from typing import Any

import pytest

from lanes.codec import encode
from tests.dialects.chatting import (
    HEAD,
    Chunk,
    body,
    call,
    chunk,
    counted,
    described,
    hear,
    outcome,
    played,
    text,
    whole,
)
from tests.support.dialect_reading import check

REASONING: list[dict[str, Any]] = [
    {"reasoning_content": "hm"},
    {"reasoning": "hm"},
    {"reasoning_content": "hm", "reasoning": "hm"},
    {"reasoning": {"content": "hm"}},
    {"reasoning": {"text": "hm"}},
    {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
    {"reasoning_details": [{"type": "reasoning.text", "text": "hm", "format": None}]},
    {"reasoning_details": [{"type": "reasoning.summary", "summary": "hm"}]},
    {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
    {"content": None, "reasoning_content": "hm", "tool_calls": []},
]


@pytest.mark.parametrize("delta", REASONING)
def test_reasoning(delta: dict[str, Any]) -> None:
    heard = whole(chunk(**delta), chunk(**delta), *text("a", "b"))
    check(heard)
    assert outcome(heard) == ["completed", "reasoning hmhm", "message ab"]


def test_reasoning_comes_before_the_text_of_its_chunk_and_again_after_it() -> None:
    heard = whole(
        chunk(reasoning_content="x", content="a"), chunk(reasoning_content="y"), *text("b", "c")
    )
    assert outcome(heard)[1:] == ["reasoning x", "message a", "reasoning y", "message bc"]


def test_encrypted_reasoning_details_are_no_text() -> None:
    sent_chunks = chunk(reasoning_details=[{"type": "reasoning.encrypted", "data": "gAAA"}])
    assert outcome(whole(sent_chunks, *text("a"))) == ["completed", "reasoning", "message a"]


def test_a_content_of_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "reference", "reference_ids": [1]}, None]
    assert outcome(whole(chunk(content=parts), *text("b"))) == ["completed", "message ab"]


def test_a_refusal_is_a_part_of_its_own() -> None:
    heard = whole(*text("a"), chunk(refusal="no"), chunk(refusal=", never"), *text("b"))
    check(heard)
    (item,) = heard.output
    assert [part.get("text", part.get("refusal")) for part in item["content"]] == [
        "a",
        "no, never",
        "b",
    ]
    assert heard.texts("refusal") == "no, never"


def test_logprobs_go_with_their_delta() -> None:
    sent_chunks = {"token": "a", "logprob": -0.1, "bytes": [97], "top_logprobs": []}
    first, second = text("a", "b")
    first["choices"][0]["logprobs"] = {"content": [sent_chunks], "refusal": None}
    heard = whole(first, second)
    check(heard)
    assert [event["logprobs"] for event in heard.of("output_text.delta")] == [[sent_chunks], []]
    assert heard.output[0]["content"][0]["logprobs"] == [sent_chunks]


def test_citations() -> None:
    cited = {"url": "https://x", "title": "X", "start_index": 0, "end_index": 1, "content": "…"}
    sent_chunks = [
        {"type": "url_citation", "url_citation": cited},
        {"type": "url_citation", "url_citation": {"url": "https://y"}},
        {"type": "file_citation"},
    ]
    heard = whole(*text("a"), chunk(annotations=sent_chunks))
    check(heard)
    first, second = heard.output[0]["content"][0]["annotations"]
    wanted = {key: value for key, value in cited.items() if key != "content"}
    assert first == {"type": "url_citation", **wanted}
    assert second["url"] == "https://y"
    alone = whole(chunk(annotations=sent_chunks), *text("a"))
    assert alone.output[0]["content"][0]["annotations"] == []


def test_the_service_tier_is_the_last_word() -> None:
    first, *others = text("a", "b")
    last = {**chunk("stop"), "service_tier": "flex"}
    heard = played({**first, "service_tier": "auto"}, *others, last, counted(), service_tier="auto")
    assert heard.terminal["service_tier"] == "flex"


def _message(finish: Any, **message: Any) -> Chunk:
    return {**HEAD, "choices": [{"index": 0, "message": message, "finish_reason": finish}]}


CALLED = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
MESSAGES: list[tuple[list[Chunk], list[str]]] = [
    ([_message("stop", content="ab")], ["message ab"]),
    ([*text("a"), _message("stop", content="ab")], ["message ab"]),
    ([*text("ab"), _message("stop", content="ab")], ["message ab"]),
    ([*text(" ab"), _message("stop", content="ab")], ["message  ab"]),
    ([_message(None, content="a"), _message(None, content="b"), chunk("stop")], ["message ab"]),
    ([_message("stop", reasoning_content="r", refusal="no")], ["reasoning r", "message no"]),
    (
        [_message("tool_calls", content=None, tool_calls=CALLED)],
        ["function_call  f {}"],
    ),
    (
        [*text("a"), call(0, "f", "{}", "c1"), _message("stop", content="a", tool_calls=CALLED)],
        ["message a", "function_call  f {}"],
    ),
    (
        [_message("stop", tool_calls=[{"function": {"name": name}} for name in "fg"])],
        ["function_call  f {}", "function_call  g {}"],
    ),
]


@pytest.mark.parametrize(("sent_chunks", "wanted"), MESSAGES)
def test_a_message_in_the_place_of_a_delta(sent_chunks: list[Chunk], wanted: list[str]) -> None:
    heard = played(*sent_chunks, counted())
    check(heard)
    assert outcome(heard) == ["completed", *wanted]


def test_a_message_beside_the_deltas_is_not_heard_twice() -> None:
    both = [
        {**HEAD, "choices": [{"delta": {"content": piece}, "message": {"content": sofar}}]}
        for piece, sofar in (("a", "a"), ("b", "ab"))
    ]
    last = _message("stop", content="ab")
    last["choices"][0]["delta"] = {}
    assert outcome(played(*both, last)) == ["completed", "message ab"]
    assert outcome(played(last)) == ["completed", "message ab"]


def test_a_steer_stops_a_text_at_once_and_a_call_at_its_end() -> None:
    heard = hear([body([*text("a", "b", "c"), chunk("stop")])], steer_after=5)
    terminal = heard.events[-1]["response"]
    assert terminal["incomplete_details"] == {"reason": "steered"}
    assert described(terminal["output"][0]) == "message a"
    sent_chunks = [call(0, "f", '{"a"', "c1"), call(0, None, ":1}"), chunk("tool_calls"), counted()]
    heard = hear([body(sent_chunks)], steer_after=4)
    assert outcome(heard) == ["completed", 'function_call  f {"a":1}']


def test_a_chunk_of_eight_mebibytes() -> None:
    long = "x" * (8 * 2**20 - 400)
    assert len(encode(chunk(content=long))) < 8 * 2**20
    assert described(whole(*text(long)).output[0]) == f"message {long}"
