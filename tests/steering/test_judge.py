"""The judge takes what may become of a steer, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.judge import judge
from tests.support.judge_steer import Fate
from tests.support.test_judge import good

if TYPE_CHECKING:
    from collections.abc import Callable

Event = dict[str, Any]

PARENT, NEXT = "resp_" + "a" * 32, "resp_" + "e" * 32
STEER = "steer_" + "1" * 32
STUB = {"type": "function_call_output", "call_id": "c1", "name": "w"}


def _steer(kind: str, number: int, steer: str | None = STEER, **fields: Any) -> Event:
    told = {"previous_response_id": PARENT} | ({} if steer is None else {"id": steer})
    event = {"type": f"response.steer.{kind}", "sequence_number": number, "steer": told}
    return {**event, "stream_id": "a", **fields}


def _pending(number: int) -> Event:
    waits: Any = {"reason": "waiting_for_required_input", "required_input": [STUB]}
    return _steer("pending", number, **waits)


def _failed(number: int, value: Any = "x", steer: str | None = STEER) -> Event:
    error = {"type": "invalid_request_error", "code": "response_not_active", "message": "m"}
    event = _steer("failed", number, steer, error=error)
    event["steer"]["input"] = value
    return event


def _follows() -> list[Event]:
    events = good()
    for event in events:
        if "response" in event:
            event["response"] |= {"id": NEXT, "previous_response_id": PARENT}
    return events


PLAYS: dict[str, Callable[[], list[Event]]] = {
    "committed": lambda: [*good(), _steer("accepted", 17), *_follows()],
    "pending": lambda: [*good(), _steer("accepted", 17), _pending(18), *_follows()],
    "failed": lambda: [*good(), _steer("accepted", 17), _failed(18)],
    "refused with an id": lambda: [*good(), _failed(17)],
    "refused without": lambda: [*good(), _failed(17, steer=None), _failed(18, steer=None)],
    "no type": lambda: [*good(), _failed(17, [{"role": "user", "content": "x"}])],
}


@pytest.mark.parametrize("play", PLAYS)
def test_accepts(play: str) -> None:
    judge(PLAYS[play]())


BROKEN: dict[str, tuple[Callable[[], list[Event]], str]] = {
    "accepted twice": (
        lambda: [*good(), _steer("accepted", 17), _steer("accepted", 18)],
        "accepted twice",
    ),
    "pending twice": (
        lambda: [*good(), _steer("accepted", 17), _pending(18), _pending(19)],
        "pending, not accepted",
    ),
    "pending first": (lambda: [*good(), _pending(17)], "pending, not accepted"),
    "failed twice": (lambda: [*good(), _failed(17), _failed(18)], "was failed before"),
    "two verdicts": (
        lambda: [*good(), _steer("accepted", 17), *_follows(), _failed(18)],
        "was committed before",
    ),
    "wrong number": (lambda: [*good(), _steer("accepted", 0)], "should be 17"),
    "no number": (lambda: [*good(), _failed(17) | {"sequence_number": None}], "valid integer"),
    "wrong lane": (lambda: [*good(), _failed(17) | {"stream_id": "b"}], "another lane"),
    "nobody's lane": (lambda: [_failed(0)], "no lane where"),
    "no number of its own": (
        lambda: [*good()[:-1], _failed(16), *good()[-1:]],
        "should be 17",
    ),
    "wrong id": (lambda: [*good(), _steer("accepted", 17, "steer_1")], "not a steer's id"),
    "lost input": (lambda: [*good(), _failed(17, None)], "valid string"),
    "early pending": (
        lambda: [*good()[:5], _steer("accepted", 5), _pending(6)],
        "after the terminal",
    ),
}


@pytest.mark.parametrize("play", BROKEN)
def test_refuses(play: str) -> None:
    events, why = BROKEN[play]
    with pytest.raises(AssertionError, match=why):
        judge(events())


def test_nothing_is_steered_without_a_steer() -> None:
    events = good()
    end = events[-1]["response"] | {"status": "incomplete", "completed_at": None}
    end["incomplete_details"] = {"reason": "steered"}
    events[-1] |= {"type": "response.incomplete", "response": end}
    with pytest.raises(AssertionError, match="no steer waits"):
        judge(events)
    fates = {fate.value for fate in Fate}
    assert fates == {"accepted", "pending", "committed", "failed"}
