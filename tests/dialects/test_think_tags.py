"""Reasoning between tags at the start of a text becomes a reasoning item (B95)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects.chat import DIALECT
from gateway.upstream.chat.think_tags import _LABELS, _TAGS, ThinkTags
from tests.dialects.chatting import body as chat_body
from tests.dialects.chatting import call, chunk, counted, described, hear, outcome, text
from tests.support.dialect_reading import check

if TYPE_CHECKING:
    from tests.machines.drive import Played


def heard_as(tags: str, *chunks: dict[str, Any], finish: str = "stop") -> Played:
    """An answer from a backend with that setting."""
    profile = replace(DIALECT.profile, reasoning_tags=tags)
    heard = hear([chat_body([*chunks, chunk(finish), counted()])], profile=profile)
    check(heard)
    return heard


def said(tags: str, *pieces: str, finish: str = "stop") -> list[str]:
    return [described(item) for item in heard_as(tags, *text(*pieces), finish=finish).output]


def cut(whole: str, size: int) -> list[str]:
    return [whole[at : at + size] for at in range(0, len(whole), size)]


TEXTS: list[tuple[str, list[str]]] = [
    ("<think>hm</think>hi", ["reasoning hm", "message hi"]),
    ("<think>\nhm\n\n</think>\n\nhi", ["reasoning hm", "message hi"]),
    ("\n<think>a < b</thin></think> hi", ["reasoning a < b</thin>", "message hi"]),
    ("<think>\n\n</think>\n\nhi", ["message hi"]),
    ("<think></think>hi", ["message hi"]),
    ("<think>hm</think>", ["reasoning hm"]),
    ("<think>hm", ["reasoning hm"]),
    ("<think>hm</think>a <think>b</think> c", ["reasoning hm", "message a <think>b</think> c"]),
    ("a <think>b</think>", ["message a <think>b</think>"]),
    ("```\n<think>b</think>\n```", ["message ```\n<think>b</think>\n```"]),
    ("`<think>`", ["message `<think>`"]),
    ("<thin", ["message <thin"]),
    ("<b>bold</b>", ["message <b>bold</b>"]),
    ("<THINK>hm</Think>hi", ["reasoning hm", "message hi"]),
    ("hm</think>hi", ["message hm</think>hi"]),
    ("  ", ["message"]),
    ("<|channel|>final<|message|>hi", ["message hi"]),
    (
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>hi",
        ["reasoning hm", "message hi"],
    ),
    *(
        (
            f"{tag.upper() if 'think' in tag and '◁' not in tag else tag}hm{end}\n\nhi",
            ["reasoning hm", "message hi"],
        )
        for tag, end in _TAGS.items()
    ),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(("whole", "wanted"), TEXTS)
def test_b95_tags_at_the_start_are_reasoning(whole: str, wanted: list[str], size: int) -> None:
    assert said("auto", *cut(whole, size)) == wanted


OPENED: list[tuple[str, list[str]]] = [
    ("hm</think>hi", ["reasoning hm", "message hi"]),
    ("<think>hm</think>hi", ["reasoning hm", "message hi"]),
    ("\nhm\n</think>\n\nhi", ["reasoning hm", "message hi"]),
    ("</think>hi", ["message hi"]),
    ("a`<think>`b</think>hi", ["reasoning a`<think>`b", "message hi"]),
    ("hi", ["reasoning hi", "message hi"]),  # it did not think: nobody must lose the answer
]


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(("whole", "wanted"), OPENED)
def test_a_template_that_wrote_the_opening_tag(whole: str, wanted: list[str], size: int) -> None:
    assert said("opened", *cut(whole, size)) == wanted


HELD: list[tuple[str, list[str]]] = [
    *OPENED[:-1],
    ("hi", ["message hi"]),
    (" a < b\n", ["message a < b"]),
    ("a </b> c", ["message a </b> c"]),
    ("hm</think>", ["reasoning hm"]),
]


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(("whole", "wanted"), HELD)
def test_nothing_is_doubled_where_it_is_not_sure_that_it_thinks(
    whole: str, wanted: list[str], size: int
) -> None:
    assert said("held", *cut(whole, size)) == wanted


@pytest.mark.parametrize("whole", ["hm", "hm <", "<think>hm"])
def test_what_was_held_is_a_thought_where_the_answer_is_cut(whole: str) -> None:
    wanted = [f"reasoning {whole.removeprefix('<think>')}"]
    assert said("held", *cut(whole, 2), finish="length") == wanted
    heard = heard_as("held", *text(*cut(whole, 2)), call(0, "f", "{}", "c1"))
    assert outcome(heard) == ["completed", *wanted, "function_call  f {}"]
    profile = replace(DIALECT.profile, reasoning_tags="held")
    broken = hear([chat_body(text(*cut(whole, 2)), done=False)], profile=profile)
    assert outcome(broken) == ["failed", *wanted]


def test_the_thought_is_streamed_once_it_is_sure() -> None:
    heard = heard_as("held", *text("one ", "two", "</think>", "\n", "h", "i"))
    assert [event["delta"] for event in heard.of("reasoning_text.delta")] == ["one two"]
    assert [event["delta"] for event in heard.of("output_text.delta")] == ["h", "i"]
    heard = heard_as("held", *text("<think>one ", "two", "</think>"))
    assert [event["delta"] for event in heard.of("reasoning_text.delta")] == ["one", " two"]


def test_a_cut_thought_is_no_answer() -> None:
    assert said("opened", "hm", finish="length") == ["reasoning hm"]


@pytest.mark.parametrize(("whole", "wanted"), TEXTS)
def test_by_setting_off_tags_are_text(whole: str, wanted: list[str]) -> None:
    del wanted
    assert said("off", whole) == [f"message {whole}".strip()]


def test_the_thought_is_streamed() -> None:
    heard = heard_as("auto", *text("<th", "ink>one ", "two", " </", "b> </thi", "nk>", "\n", "hi"))
    deltas = [event["delta"] for event in heard.of("reasoning_text.delta")]
    assert deltas == ["one", " two", " </b>"]
    assert heard.texts("output_text") == "hi"


@pytest.mark.parametrize("first", ["<think>hm", "<think>hm</think>", "<think>hm</thi"])
def test_a_call_ends_the_thought(first: str) -> None:
    heard = heard_as("auto", *text(first), call(0, "f", "{}", "c1"))
    left = "</thi" if first.endswith("thi") else ""
    assert outcome(heard) == ["completed", f"reasoning hm{left}", "function_call  f {}"]


def test_a_server_that_parts_them_itself_is_believed() -> None:
    heard = heard_as("opened", chunk(reasoning_content="hm"), *text("<think>", "a</think>"))
    assert outcome(heard) == ["completed", "reasoning hm", "message <think>a</think>"]


def test_a_whole_message_with_tags() -> None:
    whole = {"index": 0, "message": {"content": "<think>hm</think>hi"}, "finish_reason": "stop"}
    heard = hear([chat_body([{**chunk(), "choices": [whole]}])])
    assert outcome(heard) == ["completed", "reasoning hm", "message hi"]
    chunks = [*text("<think>hm</think>hi"), {**chunk(), "choices": [whole]}]
    assert outcome(hear([chat_body(chunks)])) == ["completed", "reasoning hm", "message hi"]


_words = st.sampled_from([*_TAGS, *_TAGS.values(), *_LABELS, "a", " ", "\n", "<", "`", "hm "])


@settings(deadline=None)
@given(
    st.lists(_words, max_size=6),
    st.integers(1, 9),
    st.sampled_from(["auto", "opened", "held"]),
    st.booleans(),
)
def test_any_text_at_any_chunking_is_parted_alike(
    words: list[str], size: int, kind: str, answered: bool
) -> None:
    whole = "".join(words)

    def parted(pieces: list[str]) -> tuple[str, str]:
        tags = ThinkTags(opened=kind == "opened", held=kind == "held")
        got = [one for piece in pieces for one in tags.feed(piece)]
        got += tags.finish(answered=answered)
        assert all(piece for _, piece in got)
        return (
            "".join(piece for thought, piece in got if thought),
            "".join(piece for thought, piece in got if not thought),
        )

    assert parted(cut(whole, size)) == parted([whole])
    assert len("".join(parted([whole]))) <= len(whole)
