"""Friendli's container: every event, key, item and end of its page for streamed responses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.friendli import DIALECT
from tests.dialects.pages import DEFAULTS, OURS, differences, numbered, pretty, refusals, sent
from tests.dialects.test_tapes import end
from tests.support.dialect_reading import chunks, read

Event = dict[str, Any]

PROFILE = DIALECT.profile
HEX = "0f3a9c5be1d24c7788aa41d09e6b2f35"
USAGE = {
    "input_tokens": 31,
    "input_tokens_details": {"cached_tokens": 16},
    "output_tokens": 12,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 43,
}
MESSAGE = {"id": f"msg_{HEX}", "type": "message", "status": "completed", "role": "assistant"}
THOUGHT = {"id": f"rs_{HEX}", "type": "reasoning", "status": "completed"}
CALL = {"id": f"fc_{HEX}", "type": "function_call", "status": "completed"}
CALL |= {"call_id": "call_8d1", "name": "tide", "arguments": '{"port":"Busan"}'}


def response(status: str, output: list[Event], **fields: Any) -> Event:
    head = {"id": f"resp_{HEX}", "object": "response", "created_at": 1790000300}
    return {**head, "status": status, "output": output, **fields}


def whole(item: Event, kind: str, text: str) -> Event:
    return {**item, "content": [{"type": kind, "text": text}]}


def written(item: Event, index: int, kind: str, *pieces: str) -> list[Event]:
    """A message or a thought from `added` to `done`, as the page orders it."""
    text = "".join(pieces)
    at: Event = {"item_id": item["id"], "output_index": index, "content_index": 0}
    blank = {**item, "status": "in_progress", "content": []}
    finished = whole(item, kind, text)
    return [
        {"type": "response.output_item.added", "output_index": index, "item": blank},
        {"type": "response.content_part.added", **at, "part": {"type": kind, "text": ""}},
        *({"type": f"response.{kind}.delta", **at, "delta": piece} for piece in pieces),
        {"type": f"response.{kind}.done", **at, "text": text},
        {"type": "response.content_part.done", **at, "part": {"type": kind, "text": text}},
        {"type": "response.output_item.done", "output_index": index, "item": finished},
    ]


def called(index: int, *pieces: str) -> list[Event]:
    at = {"item_id": CALL["id"], "output_index": index}
    blank = {**CALL, "status": "in_progress", "arguments": ""}
    text, kind = "".join(pieces), "response.function_call_arguments"
    return [
        {"type": "response.output_item.added", "output_index": index, "item": blank},
        *({"type": f"{kind}.delta", **at, "delta": piece} for piece in pieces),
        {"type": f"{kind}.done", **at, "arguments": text, "name": CALL["name"]},
        {"type": "response.output_item.done", "output_index": index, "item": CALL},
    ]


OPENING = [
    {"type": f"response.{kind}", "response": response("in_progress", [], model=None, usage=None)}
    for kind in ("created", "in_progress")
]


def closing(status: str, output: list[Event], **fields: Any) -> Event:
    fields = {"usage": USAGE, "incomplete_details": None, "model": "m", **fields}
    return {"type": f"response.{status}", "response": response(status, output, **fields)}


SAID, THOUGHTS = ("Ebb ", "at ", "six."), ("Look ", "up the ", "port.")
FULL_TEXT = whole(MESSAGE, "output_text", "".join(SAID))
FULL_THOUGHT = whole(THOUGHT, "reasoning_text", "".join(THOUGHTS))
STREAMS: dict[str, list[Event]] = {
    "text": [
        *(*OPENING, *written(MESSAGE, 0, "output_text", *SAID)),
        closing("completed", [FULL_TEXT]),
    ],
    "thought and call": [
        *(*OPENING, *written(THOUGHT, 0, "reasoning_text", *THOUGHTS)),
        *(*called(1, '{"port"', ':"Busan"}'), closing("completed", [FULL_THOUGHT, CALL])),
    ],
    "thought and text": [
        *(*OPENING, *written(THOUGHT, 0, "reasoning_text", *THOUGHTS)),
        *written(MESSAGE, 1, "output_text", *SAID),
        closing("completed", [FULL_THOUGHT, FULL_TEXT]),
    ],
    "incomplete": [
        *(*OPENING, *written({**MESSAGE, "status": "incomplete"}, 0, "output_text", "Ebb")),
        closing(
            "incomplete",
            [whole({**MESSAGE, "status": "incomplete"}, "output_text", "Ebb")],
            incomplete_details={"reason": "max_output_tokens"},
        ),
    ],
    "filtered": [
        *(*OPENING, *written({**MESSAGE, "status": "incomplete"}, 0, "output_text", "Ebb")),
        closing(
            "incomplete",
            [whole({**MESSAGE, "status": "incomplete"}, "output_text", "Ebb")],
            incomplete_details={"reason": "content_filter"},
        ),
    ],
    "failed": [
        *(*OPENING, *written(MESSAGE, 0, "output_text", "Ebb")),
        closing("failed", [whole(MESSAGE, "output_text", "Ebb")]),
    ],
}
EVENTS = [
    pytest.param(name, at, id=f"{name}-{at}-{event['type']}")
    for name, events in STREAMS.items()
    for at, event in enumerate(events)
]
#: The model is the one that was asked for, from the first event on; usage has all of its details.
CHANGED = OURS | {"response.model"}


@pytest.mark.parametrize(("name", "at"), EVENTS)
@pytest.mark.parametrize("first", [0, 1])
def test_every_key_of_every_event_arrives(name: str, at: int, first: int) -> None:
    sent_events = numbered(STREAMS[name], first)
    played = sent(sent_events, PROFILE)
    assert [event["type"] for event in played.events] == [event["type"] for event in sent_events]
    assert played.events[at]["sequence_number"] == at
    assert differences(sent_events[at], played.events[at]) <= CHANGED


def test_the_page_has_no_other_kinds_of_events() -> None:
    kinds = {
        event["type"].removeprefix("response.")
        for sent_events in STREAMS.values()
        for event in sent_events
    }
    steps = ("delta", "done")
    around = ("output_item", "content_part")
    texts = ("output_text", "reasoning_text", "function_call_arguments")
    assert kinds == {
        *("created", "in_progress", "completed", "failed", "incomplete"),
        *(f"{what}.{step}" for what in around for step in ("added", "done")),
        *(f"{text}.{step}" for text in texts for step in steps),
    }


ENDS = {
    "text": ["completed", "message: Ebb at six."],
    "thought and call": [
        *("completed", "reasoning: Look up the port.", 'function_call: {"port":"Busan"}')
    ],
    "thought and text": ["completed", "reasoning: Look up the port.", "message: Ebb at six."],
    "incomplete": ["incomplete", "message: Ebb"],
    "filtered": ["incomplete", "message: Ebb"],
    "failed": ["failed", "message: Ebb"],
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 7, 4096])
def test_as_the_page_prints_it(name: str, line_end: str, size: int) -> None:
    body = pretty(numbered(STREAMS[name]), line_end)
    played = read(chunks(body, size), PROFILE)
    assert end(played.terminal) == ENDS[name]
    assert played.events == sent(STREAMS[name], PROFILE).events


def test_the_ends_say_why() -> None:
    terminal = sent(STREAMS["incomplete"], PROFILE).terminal
    assert terminal["incomplete_details"] == {"reason": "max_output_tokens"}
    assert sent(STREAMS["filtered"], PROFILE).terminal["incomplete_details"] == {
        "reason": "content_filter"
    }
    terminal = sent(STREAMS["failed"], PROFILE).terminal
    assert terminal["error"]["code"] == "server_error"
    assert terminal["usage"]["total_tokens"] == 43


def without(*names: str) -> Any:
    """A change that takes these keys out of items, responses and parts."""

    def change(event: Event) -> Event:
        made = json.loads(json.dumps(event))
        places = [made, made.get("item"), made.get("response"), made.get("part")]
        places += (made.get("response") or {}).get("output", [])
        for place in filter(None, places):
            for name in names:
                place.pop(name, None)
        return made  # type: ignore[no-any-return]

    return change


#: Keys that the page does not call required; and those of deltas, for good measure.
OPTIONAL = [("usage",), ("incomplete_details",), ("model",), ("model", "usage")]
OPTIONAL += [("item_id",), ("output_index",), ("content_index",), ("name",), ("sequence_number",)]


@pytest.mark.parametrize("names", OPTIONAL, ids="-".join)
@pytest.mark.parametrize("name", ["text", "thought and text", "incomplete", "failed"])
def test_what_may_be_left_out_is_made_up_for(name: str, names: tuple[str, ...]) -> None:
    played = sent(map(without(*names), STREAMS[name]), PROFILE)
    wanted = ENDS[name]
    if names == ("incomplete_details",) and name == "incomplete":
        assert played.terminal["incomplete_details"] == {"reason": "max_output_tokens"}
    assert end(played.terminal) == wanted
    assert [e["type"] for e in played.events] == [e["type"] for e in STREAMS[name]]


@pytest.mark.parametrize("key", ["id", "status", "content"])
def test_an_item_needs_no_more_than_its_type(key: str) -> None:
    """By the page a call may lack id and status, a thought its status and content."""
    events = STREAMS["thought and call"]
    played = sent([without(key)(e) if "item" in e else e for e in events], PROFILE)
    assert end(played.terminal) == ENDS["thought and call"]


@pytest.mark.parametrize("left_out", range(len(STREAMS["thought and text"]) - 1))
def test_a_step_that_is_left_out_is_made_up_for(left_out: int) -> None:
    events = STREAMS["thought and text"]
    played = sent(events[:left_out] + events[left_out + 1 :], PROFILE)
    kind = events[left_out]["type"]
    if not kind.endswith("delta"):
        assert [e["type"] for e in played.events] == [e["type"] for e in events]
        assert end(played.terminal) == ENDS["thought and text"]


@pytest.mark.parametrize("kept", range(1, len(STREAMS["thought and call"])))
def test_a_stream_that_breaks_off_has_failed(kept: int) -> None:
    played = sent(STREAMS["thought and call"][:kept], PROFILE)
    assert played.terminal["status"] == "failed"
    assert played.terminal["error"]["code"] == "server_error"


def test_a_custom_call_arrives_as_a_call_of_its_own() -> None:
    item = {"id": "ctc_1", "type": "custom_tool_call", "call_id": "c1", "name": "sh", "input": "ls"}
    added = {"type": "response.output_item.added", "output_index": 0, "item": {**item, "input": ""}}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    played = sent([*OPENING, added, done, closing("completed", [item])], PROFILE)
    assert played.output[0]["input"] == "ls"
    assert played.texts("custom_tool_call_input") == "ls"


def test_its_own_items_go_back_value_for_value() -> None:
    run = sent(STREAMS["thought and call"], PROFILE).run
    assert [json.loads(entry.data) for entry in run.entries()] == [FULL_THOUGHT, CALL]


async def test_refusals_through_the_gateway() -> None:
    await refusals("friendli", DEFAULTS)
