"""What it says, told strictly."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lanes.compaction.prompt import SUMMARY_PROMPT
from tests.support.rehearsal import WEATHER, Rehearsal, assistant, deltas, last, user


def kinds(events: list[dict[str, Any]]) -> list[str]:
    """Event types, repeated ones once."""
    short = [event["type"].removeprefix("response.") for event in events]
    return [kind for index, kind in enumerate(short) if kind not in short[index - 1 : index]]


def test_one_delta_a_word_about_the_last_message(stand: Rehearsal) -> None:
    events = stand.ask("Tell me about queues")
    words = deltas(events, "output_text")
    assert 30 <= len(words) <= 60
    assert all(len(word.split()) == 1 for word in words)
    text = "".join(words)
    assert text.startswith('You said "Tell me about queues".')
    assert text.endswith("End of rehearsal.")
    assert last(events)["output"][0]["content"][0]["text"] == text
    assert last(events)["model"] == "any-name"
    assert kinds(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]


def test_the_same_request_gets_the_same_words_under_other_ids(stand: Rehearsal) -> None:
    first, second = (stand.ask("Tell me about lanes") for _ in range(2))
    assert deltas(first, "output_text") == deltas(second, "output_text")
    assert last(first)["id"] != last(second)["id"]
    assert last(first)["output"][0]["id"] != last(second)["output"][0]["id"]


def test_a_summary_of_what_was_said(stand: Rehearsal) -> None:
    turn = [user("Tell me about queues"), assistant("Queues wait."), user("And lanes?")]
    assert stand.say([*turn, user(SUMMARY_PROMPT)]) == (
        'Summary of 2 messages. The user said: "Tell me about queues"; "And lanes?".'
    )
    assert stand.say([user(SUMMARY_PROMPT)]) == "Summary of 0 messages. The user said nothing."


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 7, 50, 500])
def test_exactly_as_many_words_as_asked_for(stand: Rehearsal, count: int) -> None:
    events = stand.ask(f"Say something in {count} words")
    assert len(deltas(events, "output_text")) == count
    assert last(events)["usage"]["output_tokens"] == count
    text = last(events)["output"][0]["content"][0]["text"]
    assert len(text.split()) == count
    # However short, it is not taken for a cut answer afterwards.
    turn = [user("a"), assistant(text), user("b")]
    assert stand.say(turn).startswith('You said "b". Earlier you said: "a".')


@pytest.mark.parametrize(
    ("count", "starts"),
    [
        (2, "ants: rehearsal."),
        (4, "ants: "),
        (10, "ants: "),
        (15, "ants: "),
        (16, 'You said "ants in 16 words please". '),
    ],
)
def test_few_words_are_about_the_message(stand: Rehearsal, count: int, starts: str) -> None:
    text = stand.say(f"ants in {count} words please")
    assert text.startswith(starts)
    assert text.endswith("rehearsal.")
    assert len(text.split()) == count


@pytest.mark.parametrize("count", [4, 5, 10])
def test_a_new_course_is_followed_in_few_words_too(stand: Rehearsal, count: int) -> None:
    said = [user("cats"), assistant("All of the", "incomplete"), user(f"ants in {count} words")]
    text = stand.say(said)
    assert text.startswith("Changing course: ants ")
    assert len(text.split()) == count
    assert stand.say([user("a"), assistant(text), user("b")]).startswith('You said "b"')


def test_earlier_messages_are_named(stand: Rehearsal) -> None:
    said = [user("one"), assistant("x End of rehearsal."), user("two"), user("three")]
    assert stand.say(said).startswith('You said "three". Earlier you said: "one"; "two".')


@pytest.mark.parametrize(
    "partial",
    [
        assistant("All of the words", "incomplete"),
        {"role": "assistant", "content": "All of the words"},
    ],
)
def test_a_new_course_is_followed_visibly(stand: Rehearsal, partial: dict[str, Any]) -> None:
    text = stand.say([user("Tell me of cats"), partial, user("No, dogs")])
    assert text.startswith('Changing course from "All of the words": You said "No, dogs".')
    assert "Tell me of cats" in text


def test_reasoning_comes_first_and_encrypted_only_when_done(stand: Rehearsal) -> None:
    events = stand.ask(
        "Tell me about queues",
        judged=False,
        reasoning={"effort": "medium", "summary": "detailed"},
        include=["reasoning.encrypted_content"],
    )
    reasoning, message = last(events)["output"]
    assert message["type"] == "message"
    assert len(reasoning["summary"]) == 2
    shown = "".join(part["text"] for part in reasoning["summary"])
    assert shown == "".join(deltas(events, "reasoning_summary_text"))
    added = next(event["item"] for event in events if event["type"].endswith("item.added"))
    assert added["encrypted_content"] != reasoning["encrypted_content"]
    used = last(events)["usage"]
    assert used["output_tokens_details"]["reasoning_tokens"] == 14
    assert used["output_tokens"] == 14 + len(deltas(events, "output_text"))
    # Both go back as they came.
    assert stand.say([user("a"), reasoning, message, user("b")]).startswith('You said "b"')


def test_reasoning_is_silent_without_a_summary(stand: Rehearsal) -> None:
    events = stand.ask("Tell me about queues", reasoning={"effort": "low"})
    reasoning = last(events)["output"][0]
    assert reasoning == {"id": reasoning["id"], "type": "reasoning", "summary": []}
    assert last(events)["usage"]["output_tokens_details"]["reasoning_tokens"] == 9
    assert stand.ask("x", reasoning={"effort": "none"})[2]["item"]["type"] == "message"


def test_a_wanted_format_is_kept(stand: Rehearsal) -> None:
    shape = {"type": "json_schema", "name": "w", "schema": WEATHER["parameters"]}
    text = stand.say("Lisbon", text={"format": shape})
    assert json.loads(text) == {"city": "Lisbon", "days": 2, "unit": "celsius"}


def test_a_refusal_has_its_own_part(stand: Rehearsal) -> None:
    events = stand.ask("Please refuse")
    [message] = last(events)["output"]
    assert message["content"][0]["type"] == "refusal"
    assert message["content"][0]["refusal"] == "".join(deltas(events, "refusal"))
    assert stand.say([user("a"), message, user("b")]).startswith('You said "b"')


@pytest.mark.parametrize("limit", [1, 7, 14, 15, 20])
def test_the_limit_of_tokens_cuts_properly(stand: Rehearsal, limit: int) -> None:
    """The thinking takes 14, so the first three end before the message does or starts."""
    effort = {"effort": "medium", "summary": "auto"}
    events = stand.ask("Tell me about queues", max_output_tokens=limit, reasoning=effort)
    assert events[-1]["type"] == "response.incomplete"
    assert last(events)["incomplete_details"] == {"reason": "max_output_tokens"}
    assert last(events)["usage"]["output_tokens"] == limit
    assert len(deltas(events, "output_text")) == max(0, limit - 14)
    if limit > 14:
        assert last(events)["output"][1]["status"] == "incomplete"


def test_a_limit_just_met_is_no_limit(stand: Rehearsal) -> None:
    assert stand.ask("in 8 words", max_output_tokens=8)[-1]["type"] == "response.completed"


def test_input_words_are_counted(stand: Rehearsal) -> None:
    used = last(stand.ask([user("one two"), user("three")], instructions="be brief"))["usage"]
    assert used["input_tokens"] == 5
    assert used["input_tokens_details"] == {"cached_tokens": 0, "cache_write_tokens": 0}
    assert used["total_tokens"] == used["input_tokens"] + used["output_tokens"]


def test_what_was_asked_for_is_repeated(stand: Rehearsal) -> None:
    asked = {
        "temperature": 0.3,
        "metadata": {"a": "b"},
        "truncation": "auto",
        "user": "u",
        "store": False,
    }
    response = last(stand.ask("hi", tools=[WEATHER], judged=True, service_tier="auto", **asked))
    assert {key: response[key] for key in asked} == asked
    assert response["service_tier"] == "default"
    assert response["tools"] == [{**WEATHER, "description": None, "strict": True}]
