"""Whatever a backend sends: one strict stream, no text lost or doubled, and never an exception."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.codec import encode
from lanes.stream.profile import Profile
from tests.machines.absurd import Received, bodies
from tests.machines.drive import Event, Played, feed, play
from tests.machines.plausible import spoiled, streams
from tests.support.judge import judge
from tests.support.judge_response import ResponseJudge

PROFILES = st.builds(
    Profile,
    **{each.name: st.booleans() for each in fields(Profile) if each.type == "bool"},
    made_by=st.none() | st.just({"made_by": {"upstream": "a", "dialect": "chat"}}),
)
PIECE = re.compile(r"<(\d+):(\d+)>")


#: Bounded by the number of plays; how long they take is the machine's affair.
pytestmark = pytest.mark.timeout(300)


def pieces(played: Played) -> dict[str, list[int]]:
    """The pieces of each item's text, in the order in which they are in the output."""
    order: dict[str, list[int]] = defaultdict(list)
    for item in played.output:
        parts = [*item.get("content", ()), *item.get("summary", ())]
        texts = [part.get("text", part.get("refusal")) for part in parts]
        texts += [item.get("arguments", ""), item.get("input", "")]
        for number, piece in PIECE.findall("".join(texts)):
            order[number].append(int(piece))
    return order


def follow(played: Played) -> None:
    """Judge the order of a stream whose values may be of any type."""
    if not played.events:
        assert played.run.fault is not None
        return
    response = ResponseJudge(played.events[0])
    for event in played.events:
        response.receive(event)
    assert response.terminal is not None
    assert played.run.over


@given(streams(), PROFILES)
def test_a_plausible_stream_becomes_a_strict_one(
    stream: tuple[list[Event], int], profile: Profile
) -> None:
    events, each = stream
    played = play(events, profile=profile)
    assert played.terminal["status"] == "completed"
    assert all(order == list(range(each)) for order in pieces(played).values())
    numbers = set(PIECE.findall(str(events)))
    assert len(pieces(played)) == len({number for number, _ in numbers})


@given(streams(), st.data())
def test_a_plausible_stream_may_end_anywhere(
    stream: tuple[list[Event], int], data: st.DataObject
) -> None:
    events, _ = stream
    kept = data.draw(st.integers(1, len(events) - 1))
    played = play(events[:kept])
    assert played.terminal["status"] == "failed"
    assert all(order == list(range(len(order))) for order in pieces(played).values())


@given(spoiled(), PROFILES)
def test_garbage_becomes_an_orderly_stream(events: list[Event], profile: Profile) -> None:
    played = play(events, profile=profile)
    follow(played)
    if played.events:
        judge(played.events)
    played.run.entries()


@given(bodies(), PROFILES, st.booleans())
def test_absurd_events_become_a_strict_stream(
    body: list[Received], profile: Profile, begun: bool
) -> None:
    opening = [(None, encode({"type": "response.created"}))] if begun else []
    played = feed([*opening, *body], profile=profile)
    follow(played)
    if played.events:
        judge(played.events)
    assert len(played.events) < 40 * (len(body) + 1)
    played.run.entries()


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
TYPES = st.sampled_from(
    [f"response.output_item.{step}" for step in ("added", "done")]
    + [f"response.content_part.{step}" for step in ("added", "done")]
    + [f"response.output_text.{step}" for step in ("delta", "done", "annotation.added")]
    + ["response.function_call_arguments.delta", "response.created", "response.zebra", "error"]
    + ["response.completed", "response.incomplete", "response.failed"]
)
KEYS = st.sampled_from(["item", "item_id", "output_index", "part", "delta", "text", "response"])
EVENTS = st.dictionaries(KEYS, JSON).flatmap(
    lambda event: TYPES.map(lambda kind: {"type": kind, **event})
)


@given(st.lists(EVENTS | JSON, max_size=6))
def test_any_json_is_survived(events: list[Any]) -> None:
    follow(play(events))


@given(st.lists(st.tuples(st.none() | st.text(), st.binary(max_size=20)), max_size=3))
def test_any_bytes_are_survived(received: list[tuple[str | None, bytes]]) -> None:
    opened = (None, encode({"type": "response.created"}))
    follow(feed([opened, *received]))
