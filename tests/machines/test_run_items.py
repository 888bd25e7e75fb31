"""Which item an event is about, and the order in which items open and close."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects.openai import DIALECT
from lanes.stream.profile import Profile
from tests.machines.backend import (
    added,
    call,
    completed,
    created,
    delta,
    done,
    ended,
    message,
    reasoning,
)
from tests.machines.drive import Event, Played, play


def texts(played: Played) -> list[str]:
    """Each item's type and text, in order."""
    shown = []
    for item in played.output:
        parts = [*item.get("summary", ()), *item.get("content", ())]
        text = "".join(part.get("text", part.get("refusal")) for part in parts)
        shown.append(f"{item['type']} {text}{item.get('arguments', '')}{item.get('input', '')}")
    return shown


PART = {"type": "response.content_part.added", "item_id": "m1", "content_index": 0}
TEXT_DONE = {"type": "response.output_text.done", "item_id": "m1", "content_index": 0}
FULL = [
    created(),
    {"type": "response.in_progress"},
    added(message(), 0),
    {**PART, "output_index": 0, "part": {"type": "output_text", "text": ""}},
    delta("a", output_index=0, content_index=0),
    delta("b", output_index=0, content_index=0),
    {**TEXT_DONE, "output_index": 0, "text": "ab"},
    {**PART, "type": "response.content_part.done", "part": {"type": "output_text", "text": "ab"}},
    done(message("ab"), 0),
    completed([message("ab")]),
]


@pytest.mark.parametrize("left_out", range(len(FULL)))
def test_whatever_step_is_missing_is_filled_in(left_out: int) -> None:
    whole = play(FULL)
    events = FULL[:left_out] + FULL[left_out + 1 :]
    played = play(events)
    if left_out == len(FULL) - 1:
        assert played.terminal["status"] == "failed"
    elif left_out in (4, 5):
        assert texts(played) == ["message ab"] if left_out == 5 else ["message b"]
    else:
        assert played.types() == whole.types()
        assert texts(played) == ["message ab"]


@pytest.mark.parametrize("twice", range(1, len(FULL) - 1))
def test_whatever_step_comes_twice_counts_once(twice: int) -> None:
    played = play(FULL[: twice + 1] + FULL[twice:])
    assert texts(played) == ["message " + {4: "aab", 5: "abb"}.get(twice, "ab")]
    others = [kind for kind in played.types() if not kind.endswith("delta")]
    assert others == [kind for kind in play(FULL).types() if not kind.endswith("delta")]


def test_nothing_but_deltas() -> None:
    played = play([delta("a", None), delta("b", None), completed()])
    assert played.types() == play(FULL).types()


@pytest.mark.parametrize("name", ["m1", None])
def test_an_announcement_that_comes_late_is_of_the_same_item(name: str | None) -> None:
    played = play([delta("a", name), added(message(), 0), delta("b"), completed([message("ab")])])
    assert texts(played) == ["message ab"]


def test_every_event_has_its_own_name_for_the_item() -> None:
    places: list[Event] = [{"output_index": 0}, {}]
    for place in places:
        changed = message("abc", id="n4")
        events = [added(message(id="n1")) | place, delta("a", "n2", **place)]
        events += [delta("b", "n3", **place), delta("c", "n3", **place), done(changed) | place]
        played = play([created(), *events, completed([message("abc", id="n5")])])
        assert texts(played) == ["message abc"]
        assert len({event["item_id"] for event in played.events if "item_id" in event}) == 1


def test_items_may_interleave() -> None:
    events = [
        added(reasoning(), 0),
        delta("x", "rs1", "reasoning_text", output_index=0),
        added(message(), 1),
        delta("a", output_index=1),
        delta("y", "rs1", "reasoning_text", output_index=0),
        delta("b", output_index=1),
        done(message("ab"), 1),
        done(reasoning("xy"), 0),
    ]
    played = play([created(), *events, completed([reasoning("xy"), message("ab")])])
    assert texts(played) == ["reasoning x", "message a", "reasoning y", "message b"]


def test_unnamed_items_are_told_apart_by_their_place() -> None:
    events = [delta("a", None, output_index=0), delta("b", None, output_index=1)]
    both = [added({"type": "message"}, 0), added({"type": "message"}, 1)]
    played = play([created(), both[0], events[0], both[1], events[1], events[1], completed()])
    assert texts(played) == ["message a", "message bb"]
    played = play([created(), *both, *events, *events, completed()])
    assert "".join(text[8:] for text in texts(played)).count("a") == 2


def test_another_name_in_another_place_is_another_item() -> None:
    events = [delta("a", "m1", output_index=0), delta("b", "m2", output_index=1)]
    assert texts(play([*events, completed()])) == ["message a", "message b"]


def test_a_name_that_is_new_after_the_end_is_a_new_item() -> None:
    played = play([delta("a"), done(message("a")), delta("b", "m2"), completed()])
    assert texts(played) == ["message a", "message b"]


def test_text_that_comes_after_its_end_is_dropped() -> None:
    played = play([delta("a"), done(message("a")), delta("b"), completed()])
    assert texts(played) == ["message a"]


def test_all_ends_may_come_last() -> None:
    events = [added(reasoning()), delta("x", "rs1", "reasoning_text"), added(message()), delta("a")]
    events += [done(reasoning("x", status="completed")), done(message("a"))]
    played = play([created(), *events, completed([reasoning("x"), message("a")])])
    assert texts(played) == ["reasoning x", "message a"]
    assert [item["status"] for item in played.output if "status" in item] == ["completed"]


def test_an_item_closed_by_the_next_is_not_incomplete() -> None:
    opened = added(reasoning())
    opened["item"]["status"] = "in_progress"
    played = play([opened, delta("x", "rs1", "reasoning_text"), delta("a"), completed()])
    assert [item["status"] for item in played.output] == ["completed", "completed"]
    played = play([opened, delta("x", "rs1", "reasoning_text")])
    assert [item["status"] for item in played.output] == ["incomplete"]


def test_ends_out_of_place_wait_where_places_can_be_trusted() -> None:
    events = [created(), done(call(), 1), done(message("a"), 0)]
    assert texts(play([*events, completed([])], profile=DIALECT.profile)) == [
        "message a",
        "function_call {}",
    ]
    assert texts(play([*events, completed([])])) == ["function_call {}", "message a"]


@pytest.mark.parametrize("ending", [completed([]), completed(None), ended("failed")])
def test_what_waits_in_vain_comes_at_the_end_in_order(ending: Event) -> None:
    events = [created(), done(call(id="f2", call_id="c2"), 3), done(call(), 2)]
    played = play([*events, ending], profile=Profile(ordered_indices=True))
    assert [item["call_id"] for item in played.output] == ["c1", "c2"]


@pytest.mark.parametrize("output", [[], None, "absent", 7, [None, 7, {}, {"type": 3}]])
def test_the_terminal_holds_what_was_streamed(output: Any) -> None:
    ending = completed(output)
    if output == "absent":
        del ending["response"]["output"]
    played = play([created(), done(reasoning("x")), done(message("a")), ending])
    assert texts(played) == ["reasoning x", "message a"]


def test_only_the_terminal_holds_the_items() -> None:
    output = [reasoning("x"), message("a"), call('{"n":1}')]
    played = play([created(), completed(output)])
    assert texts(played) == ["reasoning x", "message a", 'function_call {"n":1}']
    assert played.texts("function_call_arguments") == '{"n":1}'
    assert [item["call_id"] for item in played.output if "call_id" in item] == ["c1"]


def test_what_follows_shows_that_an_item_was_not_cut() -> None:
    output = [message("a"), call(), message("b", id="m2")]
    played = play([created(), ended("incomplete", output=output)])
    assert [item["status"] for item in played.output] == ["completed", "completed", "incomplete"]


def test_names_that_all_change_at_the_end_double_nothing() -> None:
    events = [delta("a"), done(message("a")), done(call()), done(call(id="f2", call_id="c2"))]
    output = [message("a", id="x"), call(id="y", call_id="z"), call(id="w", call_id="v")]
    played = play([created(), *events, completed(output)])
    assert [item["call_id"] for item in played.output if "call_id" in item] == ["c1", "c2"]
    assert len(played.output) == 3


def test_an_end_that_is_told_twice_without_names_counts_once() -> None:
    nameless = {key: value for key, value in message("a").items() if key != "id"}
    played = play([created(), done(nameless), done(nameless), completed([nameless])])
    assert texts(played) == ["message a"]


def test_another_end_in_the_same_place_is_another_item() -> None:
    two = [done(call("{}"), 0), done(call("[]", id="f2", call_id="c2"), 0)]
    assert texts(play([created(), *two, completed()])) == ["function_call {}", "function_call []"]


def test_text_that_was_told_after_the_next_item_began_is_not_lost() -> None:
    announced = [created(), added(message(), 0), done(call(), 1)]
    for events in ([done(message("a"), 0), completed([])], [completed([message("a"), call()])]):
        played = play([*announced, *events])
        assert texts(played) == ["message ", "function_call {}", "message a"]
        assert len(played.run.entries()) == 2
