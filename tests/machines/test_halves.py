"""Half of a character at the end of a delta: the whole character if the other half comes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.surrogates import edged, encode_halves, joined, mended, whole
from tests.dialects.chatting import body as chat_body
from tests.dialects.chatting import call, chunk, hear, text
from tests.machines.drive import Played, feed
from tests.support.dialect_reading import check

HIGH, LOW, FACE = "\ud83d", "\ude00", "\U0001f600"
EVENTS: dict[str, dict[str, Any]] = {
    "message": {"type": "message", "id": "m", "role": "assistant", "content": []},
    "reasoning": {"type": "reasoning", "id": "r", "summary": []},
    "function_call": {"type": "function_call", "id": "f", "call_id": "c", "name": "f"},
    "custom_tool_call": {"type": "custom_tool_call", "id": "f", "call_id": "c", "name": "f"},
}
DELTAS = {
    "output_text": "message",
    "refusal": "message",
    "reasoning_text": "reasoning",
    "reasoning_summary_text": "reasoning",
    "function_call_arguments": "function_call",
    "custom_tool_call_input": "custom_tool_call",
}


def streamed(kind: str, *pieces: str, final: str | None = None) -> Played:
    """A response whose item has these deltas, as a backend's JSON has them."""
    item = EVENTS[DELTAS[kind]]
    delta = {"type": f"response.{kind}.delta", "item_id": item["id"], "output_index": 0}
    events = [
        {"type": "response.created", "response": {}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *({**delta, "delta": piece} for piece in pieces),
    ]
    if final is not None:
        key = {"function_call_arguments": "arguments", "custom_tool_call_input": "input"}.get(kind)
        done = {**delta, "type": f"response.{kind}.done", key or "text": final}
        events.append({**done, "refusal": final} if kind == "refusal" else done)
    events.append({"type": "response.completed", "response": {"status": "completed"}})
    return feed([(None, encode_halves(event)) for event in events])


HALVES: list[tuple[list[str], str]] = [
    (["a" + HIGH, LOW + "b"], f"a{FACE}b"),
    ([HIGH, LOW], FACE),
    ([HIGH, "", LOW], FACE),
    ([HIGH, LOW + HIGH, LOW], FACE * 2),
    (["a" + HIGH, "b"], "a\ufffdb"),
    (["a" + HIGH, HIGH, LOW], f"a\ufffd{FACE}"),
    (["a", LOW + "b"], "a\ufffdb"),
    (["a" + HIGH], "a\ufffd"),
    ([HIGH + "a" + LOW], "\ufffda\ufffd"),
    (["é" + HIGH + LOW, "x"], f"é{FACE}x"),
]


@pytest.mark.parametrize("kind", DELTAS)
@pytest.mark.parametrize(("pieces", "wanted"), HALVES)
def test_b94_two_halves_are_one_character(kind: str, pieces: list[str], wanted: str) -> None:
    heard = streamed(kind, *pieces)
    check(heard)
    assert heard.texts(kind) == wanted
    assert wanted in json.dumps(heard.output, ensure_ascii=False)


@pytest.mark.parametrize("final", [f"a{FACE}", "a\ufffd", "a"])
def test_the_final_text_may_have_what_the_deltas_lack(final: str) -> None:
    heard = streamed("output_text", "a" + HIGH, final=final)
    check(heard)
    assert heard.texts("output_text") == (final if len(final) > 1 else "a\ufffd")


def test_halves_of_two_parts_do_not_meet() -> None:
    item = EVENTS["message"]
    delta = {"type": "response.output_text.delta", "item_id": "m", "output_index": 0}
    pieces = [(0, "a" + HIGH), (1, "b" + HIGH), (1, LOW)]
    events = [
        {"type": "response.created", "response": {}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *({**delta, "content_index": at, "delta": piece} for at, piece in pieces),
        {"type": "response.completed", "response": {"status": "completed"}},
    ]
    heard = feed([(None, encode_halves(event)) for event in events])
    check(heard)
    texts = [part["text"] for part in heard.output[0]["content"]]
    assert texts == ["a\ufffd", f"b{FACE}"]


def _chat(*chunks: dict[str, Any]) -> Played:
    sent = [b"data: %b\n\n" % encode_halves(one) for one in (*chunks, chunk("stop"))]
    heard = hear([chat_body(sent)])
    check(heard)
    return heard


@pytest.mark.parametrize("key", ["content", "reasoning_content", "refusal"])
@pytest.mark.parametrize(("pieces", "wanted"), HALVES)
def test_halves_in_a_chat_stream(key: str, pieces: list[str], wanted: str) -> None:
    heard = _chat(*(chunk(**{key: piece}) for piece in pieces))
    kind = {"content": "output_text", "refusal": "refusal"}.get(key, "reasoning_text")
    assert heard.texts(kind) == wanted
    for entry in heard.run.entries():
        assert wanted in json.dumps(json.loads(entry.data), ensure_ascii=False)


@pytest.mark.parametrize(("pieces", "wanted"), HALVES)
def test_halves_in_the_arguments_of_a_chat_call(pieces: list[str], wanted: str) -> None:
    heard = _chat(
        call(0, "f", '{"a":"', "c1"),
        *(call(0, None, piece) for piece in pieces),
        call(0, None, '"}'),
    )
    (item,) = heard.output
    assert json.loads(item["arguments"]) == {"a": wanted}
    assert heard.texts("function_call_arguments") == item["arguments"]


def test_plain_text_goes_on_after_halves() -> None:
    heard = _chat(*text("a"), chunk(content="b" + HIGH), *text("c", "d"))
    assert [event["delta"] for event in heard.of("output_text.delta")] == ["a", "b", "\ufffdc", "d"]


_units = st.text(st.sampled_from([HIGH, LOW, "a", "é", FACE]), max_size=6)


@given(st.lists(_units, max_size=6))
def test_any_pieces_are_the_text_that_was_cut(pieces: list[str]) -> None:
    half, sent = "", ""
    for piece in map(edged, pieces):
        out, half = joined(half, piece)
        out.encode()
        sent += out
    sent += "\ufffd" if half else ""
    assert sent == mended("".join(pieces)) == whole(pieces)
