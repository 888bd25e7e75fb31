"""Maritaca: every event, key, item and end of its page for responses, whole and streamed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.maritaca import DIALECT
from tests.dialects.pages import DEFAULTS, OURS, differences, numbered, pretty, refusals, sent
from tests.dialects.test_tapes import end
from tests.support.dialect_reading import chunks, read

Event = dict[str, Any]

PROFILE = DIALECT.profile
REQUEST: Event = {"model": "S5", "input": "oi", "include": ["reasoning.encrypted_content"]}
USAGE = {"input_tokens": 21, "output_tokens": 34, "total_tokens": 55}
DETAILS = {
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens_details": {"reasoning_tokens": 13},
}
TOOL = {"type": "function", "name": "tide", "description": "Maré", "strict": True}
TOOL |= {"parameters": {"type": "object", "properties": {"port": {"type": "string"}}}}
ECHOES: Event = {
    "model": "S5",
    "previous_response_id": None,
    "usage": None,
    "error": None,
    "incomplete_details": None,
    "instructions": "Seja breve.",
    "temperature": 0.7,
    "top_p": 0.95,
    "max_output_tokens": 900,
    "metadata": {"obra": "cais"},
    "tools": [TOOL],
    "tool_choice": "auto",
    "parallel_tool_calls": False,
    "store": True,
    "reasoning": {
        "effort": "xhigh",
        "summary": "detailed",
        "context": "all_turns",
        "mode": "standard",
    },
}
MESSAGE = {"id": "msg-9c41", "type": "message", "role": "assistant", "status": "completed"}
CALL = {"id": "fc-9c41", "type": "function_call", "name": "tide", "call_id": "call_9c41"}
CALL |= {"arguments": '{"port": "Santos"}', "status": "completed"}
SEALED: Event = {"id": "rs_9c41", "type": "reasoning", "content": [], "summary": []}
SEALED |= {"encrypted_content": "gAAAAABr-cifra=="}
PLAIN: Event = {"id": "rs_9c42", "type": "reasoning", "summary": []}
PLAIN |= {"content": [{"type": "reasoning_text", "text": "Ver o porto."}]}
SUMMARY = [{"type": "summary_text", "text": "Consulta a maré."}]


def response(status: str, output: list[Event], **fields: Any) -> Event:
    head = {"id": "resp-9c41", "object": "response", "created_at": 1790000400}
    return {**head, "status": status, "output": output, **ECHOES, **fields}


OPENING = [
    {"type": f"response.{kind}", "response": response("in_progress", [])}
    for kind in ("created", "in_progress")
]


def step(kind: str, index: int, **fields: Any) -> Event:
    return {"type": f"response.{kind}", "output_index": index, **fields}


def text_events(index: int, *pieces: str) -> list[Event]:
    at: Event = {"item_id": MESSAGE["id"], "content_index": 0}
    text = "".join(pieces)
    part = {"type": "output_text", "text": text}
    blank = {**MESSAGE, "status": "in_progress", "content": []}
    return [
        step("output_item.added", index, item=blank),
        step("content_part.added", index, **at, part={**part, "text": ""}),
        *(step("output_text.delta", index, **at, delta=piece) for piece in pieces),
        step("output_text.done", index, **at, text=text),
        step("content_part.done", index, **at, part=part),
        step("output_item.done", index, item=whole(text)),
    ]


def whole(text: str) -> Event:
    return {**MESSAGE, "content": [{"type": "output_text", "text": text, "annotations": []}]}


def once(index: int, added: Event, done: Event) -> list[Event]:
    """An item that nothing but its beginning and its end tells of."""
    return [
        step("output_item.added", index, item=added),
        step("output_item.done", index, item=done),
    ]


def summed_up(item: Event) -> list[Event]:
    at: Event = {"item_id": item["id"], "summary_index": 0}
    text, kind = SUMMARY[0]["text"], "reasoning_summary_text"
    part = {"type": "summary_text", "text": text}
    return [
        step("output_item.added", 0, item=item),
        step("reasoning_summary_part.added", 0, **at, part={**part, "text": ""}),
        *(step(f"{kind}.delta", 0, **at, delta=piece) for piece in ("Consulta ", "a maré.")),
        step(f"{kind}.done", 0, **at, text=text),
        step("reasoning_summary_part.done", 0, **at, part=part),
        step("output_item.done", 0, item={**item, "summary": SUMMARY}),
    ]


def closing(output: list[Event], **fields: Any) -> Event:
    usage = {**USAGE, **DETAILS}
    return {
        "type": "response.completed",
        "response": response("completed", output, **{"usage": usage, **fields}),
    }


TEXT = ("Baixa ", "às ", "seis.")
FULL = whole("".join(TEXT))
BROKEN = {"code": "internal_error", "message": "falha"}
CUT = {"reason": "max_output_tokens"}
STREAMS: dict[str, list[Event]] = {
    "text": [*OPENING, *text_events(0, *TEXT), closing([FULL])],
    "sealed": [*OPENING, *once(0, SEALED, SEALED), *text_events(1, *TEXT), closing([SEALED, FULL])],
    "summary": [
        *(*OPENING, *summed_up(SEALED), *text_events(1, *TEXT)),
        closing([{**SEALED, "summary": SUMMARY}, FULL]),
    ],
    "nano": [
        *(*OPENING, *once(0, {**PLAIN, "content": []}, PLAIN), *text_events(1, *TEXT)),
        closing([PLAIN, FULL]),
    ],
    "call": [*OPENING, *once(0, SEALED, SEALED), *once(1, CALL, CALL), closing([SEALED, CALL])],
    "cut": [
        *(*OPENING, *text_events(0, *TEXT), closing([FULL], incomplete_details=CUT)),
    ],
    "failed": [
        *(*OPENING, *text_events(0, *TEXT)),
        {"type": "response.failed", "response": response("failed", [], error=BROKEN)},
    ],
}
ENDS = {
    "text": ["completed", "message: Baixa às seis."],
    "sealed": ["completed", "reasoning: ", "message: Baixa às seis."],
    "summary": ["completed", "reasoning: Consulta a maré.", "message: Baixa às seis."],
    "nano": ["completed", "reasoning: Ver o porto.", "message: Baixa às seis."],
    "call": ["completed", "reasoning: ", 'function_call: {"port": "Santos"}'],
    "cut": ["incomplete", "message: Baixa às seis."],
    "failed": ["failed", "message: Baixa às seis."],
}
EVENTS = [
    pytest.param(name, at, id=f"{name}-{at}-{event['type']}")
    for name, events in STREAMS.items()
    for at, event in enumerate(events)
]
#: An item opens empty, with nothing sealed; a response that was cut says so; a failure's code is
#: one of the SDK's, and its output is what was streamed.
CHANGED = {
    "response.output_item.added": {"item.arguments", "item.status", "item.encrypted_content"},
    "response.completed": {"type", "response.status"},
    "response.failed": {"response.error.code", "response.error.message", "response.output"},
}


@pytest.mark.parametrize(("name", "at"), EVENTS)
@pytest.mark.parametrize("first", [1, 0])
def test_every_key_of_every_event_arrives(name: str, at: int, first: int) -> None:
    sent_events = numbered(STREAMS[name], first)
    played = sent(sent_events, PROFILE, REQUEST)
    kind = sent_events[at]["type"]
    later = sum(event["type"] == kind for event in sent_events[at + 1 :])
    shown = kind.replace("completed", "incomplete") if name == "cut" else kind
    # What is made up for comes before what is told, so count from the end.
    got = [event for event in played.events if event["type"] == shown][-1 - later]
    proper = kind == "response.completed" and name != "cut"
    allowed = set() if proper else CHANGED.get(kind, set())
    assert differences(sent_events[at], got) <= OURS | allowed


def test_the_page_has_no_other_kinds_of_events() -> None:
    kinds = {
        event["type"].removeprefix("response.") for stream in STREAMS.values() for event in stream
    }
    steps = ("added", "done")
    assert kinds == {
        *("created", "in_progress", "completed", "failed"),
        *("output_text.delta", "output_text.done"),
        *("reasoning_summary_text.delta", "reasoning_summary_text.done"),
        *(f"output_item.{step}" for step in steps),
        *(f"content_part.{step}" for step in steps),
        *(f"reasoning_summary_part.{step}" for step in steps),
    }


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 7, 4096])
def test_at_any_chunking_and_over_many_lines(name: str, line_end: str, size: int) -> None:
    body = pretty(numbered(STREAMS[name], 1), line_end)
    played = read(chunks(body, size), PROFILE, REQUEST)
    assert end(played.terminal) == ENDS[name]
    assert played.events == sent(STREAMS[name], PROFILE, REQUEST).events


@pytest.mark.parametrize("asked", [True, False])
def test_the_sealed_thought_goes_out_once_it_is_done_and_was_asked_for(asked: bool) -> None:
    request = REQUEST if asked else {"model": "S5", "input": "oi"}
    played = sent(STREAMS["sealed"], PROFILE, request)
    added, done = played.of("output_item.added")[0], played.of("output_item.done")[0]
    assert "encrypted_content" not in added["item"]
    assert done["item"].get("encrypted_content") == (SEALED["encrypted_content"] if asked else None)
    assert played.output[0] == done["item"]
    first, _ = (json.loads(entry.data) for entry in played.run.entries())
    assert first == SEALED


def test_a_thought_that_only_its_end_tells_is_streamed() -> None:
    played = sent(STREAMS["nano"], PROFILE, REQUEST)
    kinds = [k for k in played.types() if "reasoning" in k]
    assert kinds == ["reasoning_text.delta", "reasoning_text.done"]
    assert played.texts("reasoning_text") == "Ver o porto."


def test_a_thought_in_the_clear_goes_back_as_the_page_asks() -> None:
    run = sent(STREAMS["nano"], PROFILE, REQUEST).run
    assert [json.loads(entry.data) for entry in run.entries()] == [PLAIN, FULL]


def test_a_call_without_events_of_its_own_gets_them() -> None:
    played = sent(STREAMS["call"], PROFILE, REQUEST)
    assert played.texts("function_call_arguments") == CALL["arguments"]
    (over,) = played.of("function_call_arguments.done")
    assert (over["name"], over["arguments"]) == ("tide", CALL["arguments"])
    assert played.output[1] | {"id": CALL["id"]} == CALL


@pytest.mark.parametrize("reason", ["max_output_tokens", "content_filter"])
def test_a_cut_is_told_by_its_details_alone(reason: str) -> None:
    sent_events = [*STREAMS["cut"][:-1], closing([FULL], incomplete_details={"reason": reason})]
    played = sent(sent_events, PROFILE, REQUEST)
    assert played.types()[-1] == "incomplete"
    assert played.terminal["incomplete_details"] == {"reason": reason}


@pytest.mark.parametrize("code", ["server_error", "internal_error"])
def test_a_failure_keeps_its_words(code: str) -> None:
    error = {"code": code, "message": "falha"}
    failed = {"type": "response.failed", "response": response("failed", [], error=error)}
    terminal = sent([*OPENING, failed], PROFILE, REQUEST).terminal
    assert terminal["error"]["code"] == "server_error"
    note = "" if code == "server_error" else " (internal_error)"
    assert terminal["error"]["message"] == f"falha{note}"


USAGES: list[tuple[Any, tuple[int, int]]] = [
    ({**USAGE, **DETAILS}, (4, 13)),
    ({**USAGE, "input_tokens_details": None, "output_tokens_details": None}, (0, 0)),
    (USAGE, (0, 0)),
    ({**USAGE, "output_tokens_details": DETAILS["output_tokens_details"]}, (0, 13)),
]


@pytest.mark.parametrize(("given_usage", "details"), USAGES)
def test_usage_has_all_of_its_details(given_usage: Any, details: tuple[int, int]) -> None:
    usage = sent(
        [*OPENING, *text_events(0, *TEXT), closing([FULL], usage=given_usage)], PROFILE
    ).terminal["usage"]
    assert {key: usage[key] for key in USAGE} == USAGE
    assert usage["input_tokens_details"]["cached_tokens"] == details[0]
    assert usage["output_tokens_details"]["reasoning_tokens"] == details[1]


@pytest.mark.parametrize("kept", range(1, len(STREAMS["summary"])))
def test_a_stream_that_breaks_off_has_failed(kept: int) -> None:
    played = sent(STREAMS["summary"][:kept], PROFILE, REQUEST)
    assert played.terminal["status"] == "failed"


async def test_refusals_through_the_gateway() -> None:
    await refusals("maritaca", DEFAULTS)
