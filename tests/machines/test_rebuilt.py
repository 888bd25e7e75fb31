"""The events of a response made again from its final object are events of that response."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.codec import encode
from lanes.events import Stamp
from lanes.stream.rebuilt import rebuilt_events
from tests.machines.absurd import Received, bodies
from tests.machines.drive import REQUEST, Event, Played, feed, play, start
from tests.machines.plausible import streams
from tests.machines.test_run_any import follow
from tests.support.judge import judge

pytestmark = pytest.mark.timeout(300)


def rebuilt(final: bytes) -> list[Event]:
    """The events as they would be on the wire."""
    tail = Stamp(None).tail
    events = [
        json.loads(b"%b%b%d}" % (body, tail, number))
        for number, body in enumerate(rebuilt_events(final))
    ]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


def told(events: list[Event]) -> dict[tuple[Any, ...], str]:
    """The text of each part, from the deltas alone."""
    texts: dict[tuple[Any, ...], str] = {}
    for event in events:
        if event["type"].endswith(".delta") and "item_id" in event:
            index = event.get("content_index", event.get("summary_index"))
            place = (event["type"], event["item_id"], index)
            texts[place] = texts.get(place, "") + str(event["delta"])
    return texts


def done(events: list[Event]) -> list[Any]:
    """The items as they are at their end."""
    return [e["item"] for e in events if e["type"] == "response.output_item.done"]


@given(streams(), st.booleans())
def test_a_stream_is_told_again(stream: tuple[list[Event], int], background: bool) -> None:
    run, sent = start({**REQUEST, "background": background})
    if background:
        run.queue()
    for event in stream[0]:
        run.receive(None, encode(event))
    run.end()
    played = Played(run, sent)
    again = rebuilt(played.run.final)
    assert [e["type"] for e in again[: 2 + background]] == [
        e["type"] for e in sent[: 2 + background]
    ]
    judge(again)
    assert again[-1]["response"] == played.terminal
    assert again[-1]["type"] == played.events[-1]["type"]
    assert told(again) == told(played.events)
    assert done(again) == done(played.events) == played.output


@given(bodies(), st.booleans())
def test_whatever_a_backend_sent(body: list[Received], cut: bool) -> None:
    played = feed(body)
    if played.run.final:
        again = rebuilt(played.run.final)
        follow(Played(played.run, again))
        assert again[-1]["response"] == json.loads(played.run.final)
        assert done(again) == again[-1]["response"]["output"]


@pytest.mark.parametrize(
    ("status", "end"),
    [
        ("completed", "response.completed"),
        ("incomplete", "response.incomplete"),
        ("failed", "response.failed"),
        ("cancelled", "response.incomplete"),
    ],
)
def test_the_end_is_of_the_status(status: str, end: str) -> None:
    final = {**json.loads(play([]).run.final or b"{}"), "status": status, "output": []}
    assert rebuilt(json.dumps(final).encode())[-1]["type"] == end


MARKS = st.fixed_dictionaries(
    {"upstream": st.sampled_from(["default", "cloud"]), "dialect": st.sampled_from(["chat", "x"])},
    optional={"keys": st.just(["signature"]), "inner": st.just({"upstream": "", "dialect": "x"})},
)


@given(
    st.fixed_dictionaries(
        {"summary": st.just([])},
        optional={
            "encrypted_content": st.sampled_from(["gAAA", "multilane.1.e30="]),
            "made_by": MARKS,
            "signature": st.just("s"),
            "content": st.just([{"type": "reasoning_text", "text": "so"}]),
        },
    )
)
def test_reasoning_is_as_its_client_got_it(fields: dict[str, Any]) -> None:
    begun = {"type": "response.created", "response": {"id": "r", "model": "m"}}
    response = play([begun]).terminal
    item = {"id": f"rs_{'0' * 32}", "type": "reasoning", **fields}
    ended = {"status": "completed", "error": None, "completed_at": 1, "output": [item]}
    again = rebuilt(encode({**response, **ended, "incomplete_details": None}))
    judge(again)
    assert done(again) == again[-1]["response"]["output"] == [item]
