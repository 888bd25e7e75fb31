"""Calls: whole, never cut by what comes next, never mistaken for one another."""

from __future__ import annotations

import pytest

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
)
from tests.machines.drive import Event, Played, play


def calls(played: Played) -> list[tuple[str, str, str]]:
    return [
        (item["call_id"], item["name"], item["input" if "input" in item else "arguments"])
        for item in played.output
        if "call_id" in item
    ]


SECOND = call("[2]", id="f2", call_id="c2", name="find")
ARGS_DONE = {"type": "response.function_call_arguments.done", "item_id": "f1", "arguments": "{}"}
SHAPES: dict[str, list[Event]] = {
    "all": [added(call()), args("{"), args("}"), ARGS_DONE, done(call())],
    "no deltas": [added(call()), done(call())],
    "no deltas but their end": [added(call()), ARGS_DONE, done(call())],
    "no end of arguments": [added(call()), args("{}"), done(call())],
    "no end": [added(call()), args("{"), args("}"), ARGS_DONE],
    "end only": [done(call())],
    "terminal only": [],
    "arguments at once": [{**added(call()), "item": call()}, done(call())],
    "two ends": [added(call()), args("{}"), done(call()), done(call()), ARGS_DONE],
    "null deltas": [added(call()), args(None), args("{}"), args(""), args(5), done(call())],
    "half the deltas": [added(call()), args("{"), ARGS_DONE],
    "no name at first": [added(call(name="")), args("{}"), ARGS_DONE, done(call())],
    "unannounced": [args("{}"), ARGS_DONE, done(call())],
    "call_id changes": [added(call()), args("{}"), done(call(call_id="other", id="g"))],
    "call_id changes in its place": [added(call(), 0), done(call(call_id="other", id="g"), 0)],
}


@pytest.mark.parametrize("events", SHAPES.values(), ids=list(SHAPES))
def test_a_call_is_whole(events: list[Event]) -> None:
    named = any("other" in str(event) for event in events)
    if named and "output_index" not in events[0]:
        # Without a place nobody can tell: it is another call.
        assert len(calls(play([created(), *events, completed([call()])]))) == 2
        return
    played = play([created(), *events, completed([call()])])
    assert calls(played) == [("c1", "look", "{}")]
    (over,) = played.of("function_call_arguments.done")
    assert (over["name"], over["arguments"], over["output_index"]) == ("look", "{}", 0)


def test_a_call_without_a_call_id_gets_one_and_keeps_it() -> None:
    nameless = {key: value for key, value in call().items() if key != "call_id"}
    played = play([created(), added(nameless), args("{}"), done(call()), completed([call()])])
    ((call_id, _, _),) = calls(played)
    assert call_id.startswith("call_")


PARALLEL: dict[str, list[Event]] = {
    "one after another": [
        *(added(call()), args("{"), args("}"), done(call())),
        *(added(SECOND), args("[2]", "f2"), done(SECOND)),
    ],
    "interleaved": [
        *(added(call(), 0), added(SECOND, 1), args("[", "f2"), args("{"), args("2]", "f2")),
        *(args("}"), done(SECOND, 1), done(call(), 0)),
    ],
    "interleaved without names": [
        *(added(call(), 0), added(SECOND, 1), args("[2]", None, output_index=1)),
        *(args("{}", None, output_index=0), done(SECOND, 1), done(call(), 0)),
    ],
    "all ends last": [
        *(added(call()), args("{}"), added(SECOND), args("[2]", "f2"), done(call()), done(SECOND)),
    ],
    "ends the other way round": [
        *(added(call()), args("{}"), added(SECOND), args("[2]", "f2"), done(SECOND), done(call())),
    ],
    "no ends": [added(call()), args("{}"), added(SECOND), args("[2]", "f2")],
    "twice": [added(call()), added(SECOND), added(SECOND), done(call()), done(SECOND)],
    "no name at first": [
        *(added(call()), added(call(id="f2", call_id="c2", name="")), args("[2]", "f2")),
        *(args("{}"), done(call()), done(SECOND)),
    ],
    "ends only": [done(call()), done(SECOND)],
}


@pytest.mark.parametrize("events", PARALLEL.values(), ids=list(PARALLEL))
def test_parallel_calls_are_kept_apart(events: list[Event]) -> None:
    played = play([created(), *events, completed([call(), SECOND])])
    assert calls(played) == [("c1", "look", "{}"), ("c2", "find", "[2]")]


def test_calls_whose_deltas_go_by_call_id_are_kept_apart() -> None:
    """llama.cpp's way: its calls have no id, and all ends come last."""
    one, two = ({k: v for k, v in c.items() if k != "id"} for c in (call(), SECOND))
    events = [added(one), args("{}", "c1"), added(two), args("[2]", "c2"), done(one), done(two)]
    played = play([created(), *events, completed([one, two])])
    assert calls(played) == [("c1", "look", "{}"), ("c2", "find", "[2]")]


def test_many_calls_may_end_backwards() -> None:
    many = [call(str(n), id=f"f{n}", call_id=f"c{n}") for n in range(300)]
    events = [*map(added, many), *map(done, reversed(many))]
    played = play([created(), *events, completed(many)])
    assert [row[2] for row in calls(played)] == [str(n) for n in range(300)]


def test_what_comes_during_a_call_waits_for_its_end() -> None:
    events = [added(call(), 0), args("{"), added(message(), 1), delta("a"), args("}")]
    played = play([created(), *events, done(call(), 0), delta("b"), completed()])
    assert calls(played) == [("c1", "look", "{}")]
    assert played.texts("output_text") == "ab"
    kinds = played.types()
    assert kinds.index("output_text.delta") > kinds.index("function_call_arguments.done")


def test_what_waits_is_not_lost_when_the_call_has_no_end() -> None:
    events = [created(), added(call(), 0), args("{"), added(message(), 1), delta("a")]
    for ending in (completed(), ended("incomplete"), ended("failed")):
        played = play([*events, ending])
        assert [item["type"] for item in played.output] == ["function_call", "message"]
        assert played.texts("output_text") == "a"


def test_an_event_of_an_item_that_waits_waits_too() -> None:
    search = {"type": "response.web_search_call.searching", "item_id": "w1"}
    item: Item = {"type": "web_search_call", "id": "w1", "status": "completed", "action": SEARCH}
    opened = {"type": "response.output_item.added", "item": item, "output_index": 1}
    unknown = search | {"item_id": "w9", "output_index": 9}
    events = [added(call(), 0), opened, search, unknown, done(call(), 0), done(item, 1)]
    played = play([created(), *events, completed()])
    (seen,) = played.of("web_search_call.searching")
    assert seen["item_id"] == played.output[1]["id"]


SEARCH = {"type": "search", "query": "q", "queries": ["q"]}


def test_a_custom_call_streams_its_input() -> None:
    item: Item = {"type": "custom_tool_call", "id": "x1", "call_id": "c1", "name": "sh"}
    whole = {**item, "input": "ls -l"}
    deltas = [
        delta("ls", "x1", "custom_tool_call_input"),
        delta(" -l", "x1", "custom_tool_call_input"),
    ]
    over = {"type": "response.custom_tool_call_input.done", "item_id": "x1", "input": "ls -l"}
    for events in ([added(whole), *deltas, over, done(whole)], [done(whole)], [added(whole), over]):
        played = play([created(), *events, completed([whole])])
        assert calls(played) == [("c1", "sh", "ls -l")]
        assert played.texts("custom_tool_call_input") == "ls -l"


@pytest.mark.parametrize("name", [None, 5, ""])
def test_a_call_that_is_never_named_passes_as_it_is(name: object) -> None:
    played = play(
        [created(), added(call(name=name)), args("{}"), done(call(name=name)), completed()]
    )
    assert calls(played) == [("c1", "", "{}")]
