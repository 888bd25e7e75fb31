"""A response that its client cancels: it ends here and now, with what there is (protocol.md 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.codec import encode
from lanes.stream.run_states import RunState
from tests.machines import backend
from tests.machines.drive import Event, Played, start
from tests.machines.plausible import spoiled, streams

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lanes.stream.run import Run

#: A call between two messages, each event a place to cancel at.
ANSWER: list[Event] = [
    backend.created(),
    *(
        backend.added(backend.reasoning(), 0),
        backend.delta("why", "rs1", "reasoning_text"),
        backend.done(backend.reasoning("why"), 0),
    ),
    *(
        backend.added(backend.message(), 1),
        backend.delta("abc"),
        backend.done(backend.message("abc"), 1),
    ),
    *(
        backend.added(backend.call(), 2),
        backend.args('{"a":'),
        backend.args("1}"),
        backend.done(backend.call('{"a":1}'), 2),
    ),
    *(
        backend.added(backend.message(id="m2"), 3),
        backend.delta("def", "m2"),
        backend.done(backend.message("def", id="m2"), 3),
    ),
]


def cancelled(events: Iterable[Event]) -> Played:
    """Play these events, then cancel."""
    run, sent = start()
    for event in events:
        run.receive(None, encode(event))
    run.cancel()
    return Played(run, sent)


def said(run: Run) -> list[Any]:
    """What the next request carries of it."""
    return [entry.data for entry in run.entries()]


@pytest.mark.parametrize("kept", range(len(ANSWER) + 1))
def test_it_ends_anywhere_with_the_output_so_far(kept: int) -> None:
    played = cancelled(ANSWER[:kept])
    snapshot = played.terminal
    assert snapshot["status"] == "incomplete"
    assert snapshot["incomplete_details"] == {"reason": "cancelled"}
    assert (snapshot["error"], snapshot["usage"]) == (None, None)
    assert played.run.state is RunState.CANCELLED
    assert played.run.stopped
    opened = len([event for event in ANSWER[:kept] if event["type"].endswith("item.added")])
    assert len(snapshot["output"]) == opened
    closed = len([event for event in ANSWER[:kept] if event["type"].endswith("item.done")])
    for at, item in enumerate(snapshot["output"]):
        assert item.get("status", "completed") == ("completed" if at < closed else "incomplete")


def test_it_begins_if_it_had_not() -> None:
    begun: list[str] = []
    run, sent = start()
    run.began = lambda: begun.append(run.id)
    run.cancel()
    assert Played(run, sent).types() == ["created", "in_progress", "incomplete"]
    assert begun == [run.id]


def test_half_a_call_is_not_replayed_and_half_a_message_is() -> None:
    assert not any(b"function_call" in entry for entry in said(cancelled(ANSWER[:9]).run))
    [thought, entry] = said(cancelled(ANSWER[:6]).run)
    assert b"why" in thought
    assert b"abc" in entry


def test_dangling_reasoning_is_not_replayed() -> None:
    assert said(cancelled(ANSWER[:3]).run) == []


@pytest.mark.parametrize("sealed", [{"encrypted_content": "gAA="}, {}])
def test_it_does_not_wait_for_a_boundary(sealed: dict[str, Any]) -> None:
    tool = {"type": "web_search_call", "id": "w1", "status": "in_progress"}
    action = {"type": "search", "query": "q", "queries": ["q"]}
    open_item = backend.reasoning(**sealed) if sealed else {**tool, "action": action}
    opening = {"type": "response.output_item.added", "output_index": 0, "item": open_item}
    played = cancelled([backend.created(), opening])
    assert played.output[0]["status"] == "incomplete"


def test_a_cut_that_waits_gives_way() -> None:
    run, sent = start()
    for event in ANSWER[:9]:
        run.receive(None, encode(event))
    run.cut()
    assert run.state is RunState.CUTTING
    run.cancel()
    assert sent[-1]["response"]["incomplete_details"] == {"reason": "cancelled"}


def test_what_comes_later_is_ignored() -> None:
    run, sent = start()
    for event in (backend.created(), backend.added(backend.message()), backend.delta("abc")):
        run.receive(None, encode(event))
    run.cancel()
    before = len(sent)
    run.receive(None, encode(backend.delta("def")))
    run.receive(None, encode(backend.completed([backend.message("abcdef")])))
    run.end()
    run.cut()
    run.cancel()
    assert len(sent) == before


@pytest.mark.parametrize("how", ["completed", "failed", "refused", "abandoned"])
def test_an_end_that_came_first_stands(how: str) -> None:
    run, sent = start()
    if how == "completed":
        run.complete_empty()
    elif how == "abandoned":
        run.abandon()
    else:
        if how == "failed":
            run.receive(None, encode(backend.created()))
        run.end()
    state, before = run.state, len(sent)
    run.cancel()
    assert (run.state, len(sent)) == (state, before)


def test_the_final_object_may_say_that_it_is_cancelled() -> None:
    """As the object of a background response does; its event stays what it is."""
    run, sent = start()
    run.receive(None, encode(backend.created()))
    run.cancel("cancelled")
    assert sent[-1]["type"] == "response.incomplete"
    assert sent[-1]["response"]["status"] == "cancelled"
    assert sent[-1]["response"]["incomplete_details"] is None  # the official types know no such
    assert b'"status":"cancelled"' in run.final


@given(streams(), st.data())
def test_a_plausible_stream_may_be_cancelled_anywhere(
    stream: tuple[list[Event], int], data: st.DataObject
) -> None:
    events, _ = stream
    played = cancelled(events[: data.draw(st.integers(0, len(events) - 1))])
    assert played.terminal["incomplete_details"] == {"reason": "cancelled"}
    played.run.entries()


@given(spoiled(), st.data())
def test_garbage_may_be_cancelled_anywhere(events: list[Event], data: st.DataObject) -> None:
    played = cancelled(events[: data.draw(st.integers(0, len(events)))])
    if played.events:
        assert played.terminal["status"] in ("completed", "incomplete", "failed")
    played.run.entries()
