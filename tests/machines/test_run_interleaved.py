"""Items that a backend writes at the same time: one after the other, and the first of them live."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects import llamacpp, ollama, openai
from lanes.codec import encode
from tests.machines.backend import (
    Item,
    added,
    args,
    call,
    completed,
    created,
    delta,
    done,
    ended,
    message,
    reasoning,
)
from tests.machines.drive import PLAIN, Event, feed, play, start
from tests.machines.test_run_items import texts

PROFILES = [PLAIN, openai.DIALECT.profile, llamacpp.DIALECT.profile, ollama.DIALECT.profile]

ItemText = tuple[Item, str]
THOUGHT: ItemText = (reasoning("abc"), "reasoning_text")
SAID: ItemText = (message("def", id="m2"), "output_text")
SAID_TOO: ItemText = (message("ghi", id="m3"), "output_text")
CALLED: ItemText = (call("123", id="f1", call_id="c1"), "function_call_arguments")
CALLED_TOO: ItemText = (call("456", id="f2", call_id="c2"), "function_call_arguments")
PAIRS: dict[str, tuple[ItemText, ...]] = {
    "thought, said": (THOUGHT, SAID),
    "said, thought": (SAID, THOUGHT),
    "said twice": (SAID, SAID_TOO),
    "thought, called": (THOUGHT, CALLED),
    "called, said": (CALLED, SAID),
    "called twice": (CALLED, CALLED_TOO),
    "three": (THOUGHT, SAID, CALLED),
    "four": (SAID, CALLED, CALLED_TOO, SAID_TOO),
}


def text_of(item_text: ItemText) -> str:
    (text,) = texts(play([created(), done(item_text[0]), completed()]))
    return text


def announced(items: tuple[ItemText, ...], *, parts: bool) -> list[Event]:
    events = []
    for place, (item, kind) in enumerate(items):
        events.append(added(item, place))
        if parts and kind in ("output_text", "reasoning_text"):
            at = {"item_id": item["id"], "output_index": place, "content_index": 0}
            part = {"type": kind, "text": ""}
            events.append({"type": "response.content_part.added", **at, "part": part})
    return events


def pieces(item_text: ItemText, place: int, *, named: bool) -> list[Event]:
    item, kind = item_text
    text = text_of(item_text).split(" ")[1]
    name = item["id"] if named else None
    return [delta(letter, name, kind, output_index=place) for letter in text]


ENDS = {
    "in order": lambda n: range(n),
    "the other way round": lambda n: reversed(range(n)),
    "none": lambda n: (),
}


@pytest.mark.parametrize("items", PAIRS.values(), ids=list(PAIRS))
@pytest.mark.parametrize("ends", ENDS.values(), ids=list(ENDS))
@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_items_that_take_turns_are_put_one_after_the_other(
    items: tuple[ItemText, ...], ends: Any, parts: bool, named: bool
) -> None:
    """All are announced first, then each delta in turn is another item's."""
    filled = [pieces(item, place, named=named) for place, item in enumerate(items)]
    turns = [event for turn in zip(*filled, strict=True) for event in turn]
    closing = [done(items[place][0], place) for place in ends(len(items))]
    for profile in PROFILES:
        for output in ([], [item for item, _ in items]):
            events = [created(), *announced(items, parts=parts), *turns, *closing]
            played = play([*events, completed(output)], profile=profile)
            assert texts(played) == [text_of(item) for item in items]


@pytest.mark.parametrize("items", PAIRS.values(), ids=list(PAIRS))
def test_the_later_item_may_be_filled_first(items: tuple[ItemText, ...]) -> None:
    filled = [pieces(item, place, named=True) for place, item in enumerate(items)]
    turns = [event for turn in zip(*filled, strict=True) for event in reversed(turn)]
    events = [created(), *announced(items, parts=False), *turns]
    played = play([*events, completed([item for item, _ in items])])
    assert texts(played) == [text_of(item) for item in items]


def shown(events: list[Event]) -> list[str]:
    """The deltas that the client has after each event."""
    run, sent = start()
    run.receive(None, encode(created()))
    deltas = []
    for event in events:
        before = len(sent)
        run.receive(None, encode(event))
        deltas.append("".join(e["delta"] for e in sent[before:] if e["type"].endswith("delta")))
    return deltas


LIVE: dict[str, tuple[list[Event], list[str]]] = {
    "the first of two texts": (
        [
            *(added(reasoning(), 0), added(message(), 1)),
            *(delta("x", "rs1", "reasoning_text"), delta("a"), delta("y", "rs1", "reasoning_text")),
            *(delta("b"), done(reasoning("xy"), 0), delta("c")),
        ],
        ["", "", "x", "", "y", "", "ab", "c"],
    ),
    "the first of two calls": (
        [
            *(added(call(), 0), added(call(id="f2", call_id="c2"), 1)),
            *(args("{", "f1"), args("[", "f2"), args("}", "f1"), args("1", "f2")),
            *(done(call("{}"), 0), args("]", "f2")),
        ],
        ["", "", "{", "", "}", "", "[1", "]"],
    ),
    "two calls known by their places": (
        [
            *(added(call(), 0), added(call(id="f2", call_id="c2"), 1)),
            *(args("{", None, output_index=0), args("[", None, output_index=1)),
            *(args("}", None, output_index=0), done(call("{}"), 0)),
            args("]", None, output_index=1),
        ],
        ["", "", "{", "", "}", "[", "]"],
    ),
    "text after text that is never closed": (
        [
            *(added(reasoning()), delta("x", "rs1", "reasoning_text")),
            *(added(message()), delta("a"), delta("b")),
        ],
        ["", "x", "", "a", "b"],
    ),
    "a call after a message that is never closed": (
        [added(message(), 0), delta("a"), added(call(), 0), args("{"), args("}")],
        ["", "a", "", "{", "}"],
    ),
    "text that goes back and forth": (
        [
            *(added(reasoning()), delta("x", "rs1", "reasoning_text"), added(message())),
            *(delta("a"), delta("y", "rs1", "reasoning_text"), delta("b")),
        ],
        ["", "x", "", "a", "y", "b"],
    ),
}


@pytest.mark.parametrize(("events", "seen"), LIVE.values(), ids=list(LIVE))
def test_what_can_be_shown_is_shown_at_once(events: list[Event], seen: list[str]) -> None:
    assert shown(events) == seen


def test_an_item_that_was_announced_for_nothing_holds_the_next_up_for_eight_events() -> None:
    for first in (added(reasoning(), 0), added(message(id="m0"), 0)):
        seen = shown([first, added(message(), 1), *(delta(str(n), "m1") for n in range(12))])
        assert seen == [*[""] * 10, "012345678", "9", "10", "11"]


def test_text_that_was_announced_early_comes_late_by_eight_events_at_most() -> None:
    thought = [delta(letter, "rs1", "reasoning_text") for letter in "xyz"]
    words = [delta(str(n)) for n in range(12)]
    seen = shown([added(reasoning(), 0), added(message(), 1), *thought, *words])
    assert seen == ["", "", "x", "y", "z", *[""] * 8, "012345678", "9", "10", "11"]


@pytest.mark.parametrize("how", ["failed", "incomplete"])
def test_what_waits_is_sent_when_the_response_breaks_off(how: str) -> None:
    events = [created(), added(reasoning(), 0), added(message(), 1)]
    events += [delta("x", "rs1", "reasoning_text"), delta("a"), delta("y", "rs1", "reasoning_text")]
    assert texts(play([*events, ended(how)])) == ["reasoning xy", "message a"]
    assert texts(play(events)) == ["reasoning xy", "message a"]


def test_a_cut_waits_for_text_that_waits_but_not_for_its_announcement() -> None:
    run, _ = start()
    events = [created(), added(reasoning(), 0), delta("x", "rs1", "reasoning_text")]
    for event in [*events, added(message(), 1)]:
        run.receive(None, encode(event))
    run.cut()
    assert run.state == "steered"
    run, _ = start()
    weave = [delta("y", "rs1", "reasoning_text"), delta("a"), delta("z", "rs1", "reasoning_text")]
    for event in [*events, added(message(), 1), *weave]:
        run.receive(None, encode(event))
    run.cut()
    assert run.state == "cutting"
    run.receive(None, encode(done(reasoning("xyz"), 0)))
    assert run.state == "steered"
    run, _ = start()
    for event in [*events, added(call(), 1)]:
        run.receive(None, encode(event))
    run.cut()
    assert run.state == "cutting"


def test_text_that_goes_on_during_a_call_is_not_lost() -> None:
    """Its end comes during the call, too, and says all of it again."""
    events = [created(), added(message()), delta("a"), added(call("12")), args("1"), delta("b")]
    events += [done(message("ab")), args("2"), done(call("12")), completed([])]
    assert texts(play(events)) == ["message a", "function_call 12", "message b"]


def test_nothing_is_added_to_an_item_that_was_closed_among_what_waited() -> None:
    other = call("3", id="f2", call_id="c2")
    events = [created(), added(call()), added(message()), args("{}"), delta("a"), done(other)]
    played = play([*events, done(call()), delta("b"), delta("c"), completed([])])
    assert texts(played) == ["function_call {}", "message a", "function_call 3", "message bc"]


def test_a_tool_at_work_is_shown_at_once_behind_text() -> None:
    item: Item = {"type": "web_search_call", "id": "w1", "status": "in_progress"}
    played = feed((None, encode(e)) for e in [created(), added(message()), delta("a"), added(item)])
    kinds = [event["item"]["type"] for event in played.of("output_item.added")]
    assert kinds == ["message", "web_search_call"]
