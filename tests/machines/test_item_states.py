"""The tables of the output: each row is taken, no other step is, and plays visit all of them."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given, seed, settings

from lanes.codec import encode
from lanes.errors import IllegalTransition
from lanes.stream.held_events import HeldEvents
from lanes.stream.item_schema import Seal
from lanes.stream.item_states import (
    HOLD_TRANSITIONS,
    ITEM_TRANSITIONS,
    HoldState,
    HoldStep,
    ItemState,
    ItemStep,
)
from lanes.stream.items import Item
from lanes.stream.profile import Profile
from tests.machines.backend import (
    added,
    args,
    call,
    completed,
    created,
    delta,
    done,
    message,
    reasoning,
)
from tests.machines.drive import Event, start
from tests.machines.turns import turns
from tests.machines.watch import UsedRows, watched

ORDERED = Profile(ordered_indices=True)


def thought(text: str) -> Event:
    return delta(text, "rs1", "reasoning_text")


PART = {"type": "output_text", "text": ""}
THOUGHT = [created(), added(reasoning(), 0), thought("x")]
CALLED = [created(), added(call(), 0)]
EARLY = done(message("z", id="m9"), 5)
BEHIND = [*THOUGHT, added(message(), 1)]

#: How the events behind open text come into each state, and behind an open call.
BEHIND_TEXT: dict[HoldState, list[Event]] = {
    HoldState.EMPTY: THOUGHT,
    HoldState.WAITING: [*THOUGHT, EARLY],
    HoldState.ANNOUNCED: BEHIND,
    HoldState.STARTED: [created(), added(reasoning(), 0), added(message(), 1), delta("a")],
    HoldState.CONTINUED: [*BEHIND, thought("y")],
    HoldState.PAUSED: [*BEHIND, thought("y"), delta("a")],
    HoldState.INTERLEAVED: [*BEHIND, thought("y"), delta("a"), thought("z")],
}
BEHIND_A_CALL: dict[HoldState, list[Event]] = {
    HoldState.EMPTY: CALLED,
    HoldState.WAITING: [*CALLED, added(message(), 1)],
}
TEXT_STEPS: dict[HoldStep, Event] = {
    HoldStep.ANNOUNCE: added(message(), 1),
    HoldStep.OPENING: {"type": "response.content_part.added", "item_id": "m1", "part": PART},
    HoldStep.CONTENT: delta("b"),
    HoldStep.CONTINUE: {**thought("w"), "more": "than text"},
    HoldStep.FREE: done(reasoning("x"), 0),
}
CALL_STEPS: dict[HoldStep, Event] = {
    HoldStep.OPENING: added(message(id="m2"), 2),
    HoldStep.CONTENT: delta("b"),
    HoldStep.CONTINUE: args("{}"),
    HoldStep.FREE: done(call(), 0),
}
#: How an item comes into each state, and what happens to it then.
OVERTAKEN = [created(), added(message(), 0), delta("a"), added(call(), 1), args("{")]
ITEM_PLAYS: dict[tuple[ItemState, ItemStep], list[Event]] = {
    (ItemState.OPEN, ItemStep.CLOSE): [*THOUGHT, delta("a")],
    (ItemState.OPEN, ItemStep.FINISH): [*THOUGHT, done(reasoning("x"), 0)],
    (ItemState.CLOSED, ItemStep.FINISH): [*THOUGHT, delta("a"), done(reasoning("x"), 0)],
    (ItemState.CLOSED, ItemStep.RESUME): [*OVERTAKEN, delta("b")],
    (ItemState.RESUMED, ItemStep.RESUME): [*OVERTAKEN, delta("b"), delta("c")],
    (ItemState.RESUMED, ItemStep.RELEASE): [*OVERTAKEN, delta("b"), done(call(), 1)],
    (ItemState.RESUMED, ItemStep.FINISH): [*OVERTAKEN, delta("b"), completed([message("ab")])],
    (ItemState.DONE, ItemStep.FINISH): [*THOUGHT, *[done(reasoning("x"), 0)] * 2],
}


def used_last(events: list[Event]) -> UsedRows:
    """Play the events; return the rows that the last of them used."""
    run, _ = start(profile=ORDERED)
    with watched() as rows:
        for event in events:
            rows.clear()
            run.receive(None, encode(event))
    return rows


@pytest.mark.parametrize("row", [row for row in HOLD_TRANSITIONS if row[0] is not HoldState.FREED])
def test_each_row_of_what_is_held_is_taken(row: tuple[HoldState, HoldStep]) -> None:
    state, step = row
    behind, steps = BEHIND_TEXT, TEXT_STEPS
    if state in BEHIND_A_CALL and step in CALL_STEPS:
        behind, steps = BEHIND_A_CALL, CALL_STEPS
    rows = used_last([*behind[state], steps[step]]).held
    assert rows[0] == row
    for used, following in pairwise(rows):
        assert following[0] is HOLD_TRANSITIONS[used]
    if HOLD_TRANSITIONS[row] is HoldState.FREED:
        assert rows[1] == (HoldState.FREED, HoldStep.REPLAY)


@pytest.mark.parametrize("row", ITEM_TRANSITIONS)
def test_each_row_of_an_item_is_taken(row: tuple[ItemState, ItemStep]) -> None:
    assert row in used_last(ITEM_PLAYS[row]).items


@pytest.mark.parametrize("row", sorted(set(product(HoldState, HoldStep)) - set(HOLD_TRANSITIONS)))
def test_a_missing_row_of_what_is_held_is_our_own_fault(row: tuple[HoldState, HoldStep]) -> None:
    held = HeldEvents()
    held.state, step = row
    with pytest.raises(IllegalTransition, match=f"{held.state}: {step}"):
        held._step(step)


@pytest.mark.parametrize("row", sorted(set(product(ItemState, ItemStep)) - set(ITEM_TRANSITIONS)))
def test_a_missing_row_of_an_item_is_our_own_fault(row: tuple[ItemState, ItemStep]) -> None:
    item = Item({"type": "message"}, 0, "msg_1", "call_1", Seal(shown=False))
    item.state, step = row
    with pytest.raises(IllegalTransition, match=f"{item.state}: {step}"):
        item.step(step)


def test_plays_visit_every_row() -> None:
    """No row is there for nothing: a backend that mixes its items up uses all of them."""

    @seed(1)
    @settings(max_examples=1500, database=None)
    @given(turns())
    def play_all(events: list[Any]) -> None:
        run, _ = start(profile=ORDERED)
        for event in events:
            run.receive(None, encode(event))
        run.end()

    with watched() as rows:
        play_all()
    assert set(rows.items) == set(ITEM_TRANSITIONS)
    assert set(rows.held) == set(HOLD_TRANSITIONS)
