"""A response has as much output as its room allows, whatever its backend sends without an end."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from lanes.codec import encode
from lanes.stream.room import OutputBounds, Room
from lanes.stream.run_states import RunState
from tests.machines.backend import added, args, call, completed, created, delta, done, message
from tests.machines.drive import start
from tests.support.judge import judge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lanes.stream.run import Run

Event = dict[str, Any]

LIMIT = 256 << 10
WORD = "0123456789" * 100
TEXT = {"type": "output_text", "text": "", "annotations": []}


def words() -> Iterator[Event]:
    yield added(message())
    while True:
        yield delta(WORD)


def words_with_logprobs() -> Iterator[Event]:
    yield added(message())
    while True:
        yield delta("word", logprobs=[{"token": "word", "logprob": -1.0, "bytes": []}] * 20)


def arguments() -> Iterator[Event]:
    yield added(call())
    while True:
        yield args(WORD)


def arguments_behind_a_call() -> Iterator[Event]:
    yield added(call())
    yield added(call(id="f2", call_id="c2"))
    while True:
        yield args(WORD, "f2")


def items_behind_a_call() -> Iterator[Event]:
    yield added(call())
    for number in count():
        yield done(message(WORD, id=f"m{number}"))


def finished_items() -> Iterator[Event]:
    for number in count():
        yield done(message(WORD, id=f"m{number}"))


def announcements() -> Iterator[Event]:
    for number in count():
        yield added(message(id=f"m{number}"))


def parts() -> Iterator[Event]:
    yield added(message())
    for number in count():
        place = {"item_id": "m1", "content_index": number}
        yield {"type": "response.content_part.added", **place, "part": TEXT}


def citations() -> Iterator[Event]:
    yield added(message())
    yield delta("word")
    note = {"type": "url_citation", "start_index": 0, "end_index": 1, "title": "t", "url": "u"}
    place = {"item_id": "m1", "content_index": 0, "output_index": 0}
    kind = "response.output_text.annotation.added"
    for number in count():
        yield {"type": kind, **place, "annotation_index": number, "annotation": note}


def play(run: Run, events: Iterator[Event]) -> int:
    """Feed the run until it is over; the bytes that it took."""
    taken = 0
    run.receive(None, encode(created()))
    while not run.over:
        data = encode(next(events))
        taken += len(data)
        assert taken < 8 * LIMIT
        run.receive(None, data)
    return taken


@pytest.mark.parametrize(
    "endless",
    [
        words,
        words_with_logprobs,
        arguments,
        arguments_behind_a_call,
        items_behind_a_call,
        finished_items,
        announcements,
        parts,
        citations,
    ],
)
def test_it_ends_incomplete_once_its_room_is_full(endless: Any) -> None:
    run, sent = start(room=Room(OutputBounds(of_response=LIMIT)))
    play(run, endless())
    judge(sent)
    assert (run.state, run.stopped) == (RunState.INCOMPLETE, True)
    response = sent[-1]["response"]
    assert sent[-1]["type"] == "response.incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_bytes"}
    assert run.required_input() == []
    assert run.room.taken <= LIMIT


def test_what_was_sent_is_what_the_next_request_carries() -> None:
    run, sent = start(room=Room(OutputBounds(of_response=LIMIT)))
    play(run, words())
    text = "".join(event["delta"] for event in sent if event["type"].endswith("text.delta"))
    [item] = sent[-1]["response"]["output"]
    assert item["status"] == "incomplete"
    assert item["content"][0]["text"] == text
    assert LIMIT <= len(text) <= LIMIT + len(WORD)
    [entry] = run.entries()
    assert json.loads(entry.data)["content"][0]["text"] == text


def test_a_text_counts_once_however_often_it_is_repeated() -> None:
    bounds = OutputBounds(of_response=LIMIT)
    run, sent = start(room=Room(bounds))
    text = WORD * (LIMIT // len(WORD) - 1)
    events = [created(), added(message()), delta(text), done(message(text))]
    for event in (*events, completed([message(text)])):
        run.receive(None, encode(event))
    assert sent[-1]["type"] == "response.completed"


def test_responses_share_the_bounds_of_their_connection() -> None:
    bounds = OutputBounds(left=2 * LIMIT)
    first, _ = start(room=Room(bounds))
    second, sent = start(room=Room(bounds))
    events = words()
    first.receive(None, encode(created()))
    for _ in range(LIMIT // len(WORD)):
        first.receive(None, encode(next(events)))
    assert play(second, words()) < 2 * LIMIT
    assert sent[-1]["response"]["incomplete_details"] == {"reason": "max_output_bytes"}
    assert not first.over
    bounds.left += second.room.taken
    third, _ = start(room=Room(bounds))
    assert play(third, words()) > LIMIT // 2
