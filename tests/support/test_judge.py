"""The judge must accept a good stream and refuse each way to break it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from tests import tapes
from tests.support.judge import StreamJudge, judge, validate
from tests.support.judge_response import KEYS

if TYPE_CHECKING:
    from collections.abc import Callable

Event = dict[str, Any]

_IDS = {"resp_": "resp_" + "a" * 32, "rs_": "rs_" + "b" * 32, "msg_": "msg_" + "c" * 32}


def _ours(value: Any) -> Any:
    """The tape's ids are shorter than the gateway's own."""
    if isinstance(value, dict):
        return {key: _ours(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_ours(inner) for inner in value]
    if isinstance(value, str):
        return next((ours for prefix, ours in _IDS.items() if value.startswith(prefix)), value)
    return value


def good(lane: str | None = "a") -> list[Event]:
    """The reference's tape with what the gateway adds and without what it takes away."""
    events = [e for e in tapes.events("openai_text.sse") if e["type"] != "keepalive"]
    for number, event in enumerate(events):
        event["sequence_number"] = number
        if lane is not None:
            event["stream_id"] = lane
        if "response" in event:
            event["response"] = dict.fromkeys(KEYS) | event["response"]
    del events[2]["item"]["encrypted_content"]
    made: list[Event] = _ours(events)
    return made


def call(lane: str | None = None) -> list[Event]:
    """A stream with one function call."""
    stream = good(lane)
    item = {"id": "fc_" + "d" * 32, "type": "function_call", "call_id": "c1", "name": "look"}
    place = {"item_id": item["id"], "output_index": 0}
    whole = {**item, "arguments": "{}", "status": "completed"}
    topic = "response.function_call_arguments"
    middle: list[Event] = [
        {"type": "response.output_item.added", "output_index": 0, "item": whole | _OPEN},
        {"type": f"{topic}.delta", **place, "delta": "{}"},
        {"type": f"{topic}.done", **place, "arguments": "{}", "name": "look"},
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
    ]
    stream[-1]["response"]["output"] = [whole]
    events = [*stream[:2], *middle, stream[-1]]
    for number, event in enumerate(events):
        event["sequence_number"] = number
        if lane is not None:
            event["stream_id"] = lane
    return events


_OPEN = {"arguments": "", "status": "in_progress"}


def error(**fields: Any) -> Event:
    inner = {"type": "invalid_request_error", "code": "c", "message": "m", "param": None}
    return {"type": "error", "status": 400, "error": inner, **fields}


def test_accepts_the_reference() -> None:
    terminals = judge(good())
    assert [len(t["output"]) for t in terminals.values()] == [2]


def test_accepts_a_function_call() -> None:
    judge(call())


def test_accepts_unknown_fields_and_unknown_response_events() -> None:
    stream = good()
    stream[5]["vendor"] = {"deep": [1, None]}
    stream[-1]["response"]["x_vendor"] = 1
    zebra = {"type": "response.zebra.delta", "k": 1, "stream_id": "a", "sequence_number": 16}
    stream[-1]["sequence_number"] = 17
    judge([*stream[:-1], zebra, stream[-1]])


def test_accepts_lanes_that_interleave_and_errors_between() -> None:
    second = copy.deepcopy(call("b"))
    for event in second:
        if "response" in event:
            event["response"]["id"] = "resp_" + "e" * 32
    mixed = [event for pair in zip(good(), second, strict=False) for event in pair]
    mixed[6:6] = [error(stream_id="a"), error()]
    judge([*mixed, *good()[len(second) :]])


def _set(at: int, *path: Any) -> Callable[[list[Event]], None]:
    """Set the value at the end of a path in one event."""

    def change(stream: list[Event]) -> None:
        *way, key, value = path
        spot: Any = stream[at]
        for step in way:
            spot = spot[step]
        spot[key] = value

    return change


def _drop(at: int, *path: Any) -> Callable[[list[Event]], None]:
    def change(stream: list[Event]) -> None:
        spot: Any = stream[at]
        for step in path[:-1]:
            spot = spot[step]
        del spot[path[-1]]

    return change


def _cut(at: int) -> Callable[[list[Event]], None]:
    """Leave one event out, and number the rest as if it had never been."""

    def change(stream: list[Event]) -> None:
        del stream[at]
        for number, event in enumerate(stream):
            event["sequence_number"] = number

    return change


def _again(at: int) -> Callable[[list[Event]], None]:
    def change(stream: list[Event]) -> None:
        stream.insert(at, copy.deepcopy(stream[at]))
        for number, event in enumerate(stream):
            event["sequence_number"] = number

    return change


@pytest.mark.parametrize(
    ("breakage", "why"),
    [
        (_cut(0), "no response runs"),
        (_cut(1), "come first"),
        (_again(1), "come first"),
        (_cut(2), "no item is open"),
        (_cut(9), "no part is open"),
        (_cut(11), "text is not what its deltas were"),
        (_cut(13), "text was not closed"),
        (_cut(14), "a part is still open"),
        (_cut(15), "an item is still open"),
        (_cut(7), "the item before is still open"),
        (_cut(16), "no terminal event"),
        (_again(16), "no response runs"),
        (_set(5, "sequence_number", 6), "sequence_number should be 5"),
        (_drop(5, "sequence_number"), "sequence_number"),
        (_set(5, "sequence_number", "5"), "valid integer"),
        (_drop(5, "stream_id"), "no response runs"),
        (_set(5, "stream_id", "b"), "no response runs"),
        (_set(5, "stream_id", None), "not a lane's name"),
        (_set(5, "error", {"code": "x"}), "only an error event"),
        (_set(8, "output_index", 0), "output_index should be 1"),
        (_set(8, "item", "id", "msg_1"), "32 hex"),
        (_set(8, "item", "id", _IDS["rs_"]), "used twice"),
        (_set(8, "item", "content", [{}]), "content"),
        (_set(2, "item", "encrypted_content", "x"), "only when done"),
        (_set(10, "content_index", 1), "another part"),
        (_set(10, "item_id", "msg_" + "f" * 32), "another item"),
        (_set(10, "delta", ""), "an empty delta"),
        (_drop(10, "logprobs"), "logprobs"),
        (_set(14, "part", "text", "Use"), "not what its deltas were"),
        (_set(15, "item", "content", 0, "text", "Use"), "content is not its parts"),
        (_set(15, "item", "role", "user"), "role"),
        (_set(1, "response", "usage", good()[16]["response"]["usage"]), "no usage before the end"),
        (_set(16, "response", "output", []), "output is not the items"),
        (_set(16, "response", "output", 0, "extra", 1), "output is not the items"),
        (_set(16, "response", "created_at", 3), "created_at changed"),
        (_set(16, "response", "model", "other"), "model changed"),
        (_set(16, "response", "id", "resp_" + "f" * 32), "id changed"),
        (_set(16, "response", "status", "failed"), "status should be"),
        (_drop(16, "response", "presence_penalty"), "lacks presence_penalty"),
        (_drop(16, "response", "usage", "input_tokens_details"), "input_tokens_details"),
        (_set(0, "response", "tools", None), "tools"),
    ],
)
def test_refuses(breakage: Callable[[list[Event]], None], why: str) -> None:
    stream = good()
    breakage(stream)
    with pytest.raises(AssertionError, match=why):
        judge(stream)


@pytest.mark.parametrize(
    ("breakage", "why"),
    [
        (_set(4, "arguments", "{"), "not what their deltas were"),
        (_set(4, "name", "other"), "changed its name"),
        (_cut(4), "were not closed first"),
        (_set(5, "item", "call_id", "c2"), "changed its call_id"),
        (_set(2, "item", "arguments", "{}"), "arguments should be ''"),
    ],
)
def test_refuses_calls(breakage: Callable[[list[Event]], None], why: str) -> None:
    stream = call()
    breakage(stream)
    with pytest.raises(AssertionError, match=why):
        judge(stream)


@pytest.mark.parametrize(
    "event",
    [
        error(status="400"),
        error(status=200),
        error(stream_id=""),
        error(sequence_number=0),
        error(error={"type": "t", "code": None, "message": "m"}),
        error(error={"type": "t", "code": None, "message": "", "param": None}),
        error(error=error()["error"] | {"headers": {"set-cookie": "s=1"}}),
        {"type": "error", "code": "c", "message": "m", "param": None},
        {"type": "keepalive", "sequence_number": 1},
        {"status": 400},
    ],
)
def test_refuses_events(event: Event) -> None:
    with pytest.raises(AssertionError):
        validate(event)


def test_one_lane_runs_one_response() -> None:
    stream = StreamJudge()
    for event in good()[:4]:
        stream.receive(event)
    second = good()[0]
    second["response"]["id"] = "resp_" + "f" * 32
    with pytest.raises(AssertionError, match="sequence_number should be 4"):
        stream.receive(second)
