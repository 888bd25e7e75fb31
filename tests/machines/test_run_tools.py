"""Hosted tools: their own events, and never cut while they work."""

from __future__ import annotations

from typing import Any

import pytest

from tests.machines.backend import Item, completed, created, delta, done, ended, message
from tests.machines.drive import Event, play

SEARCH = {"type": "search", "query": "q", "queries": ["q"]}
TOOLS: dict[str, tuple[Item, list[str]]] = {
    "web_search_call": ({"action": SEARCH}, ["in_progress", "searching", "completed"]),
    "file_search_call": ({"queries": ["q"]}, ["in_progress", "searching", "completed"]),
    "code_interpreter_call": (
        {"code": "1", "container_id": "cn", "outputs": None},
        ["in_progress", "interpreting", "completed"],
    ),
    "image_generation_call": ({"result": None}, ["in_progress", "generating", "completed"]),
    "mcp_call": (
        {"name": "n", "arguments": "{}", "server_label": "s"},
        ["in_progress", "completed"],
    ),
}


def opened(kind: str, **fields: Any) -> Event:
    item = {"type": kind, "id": "t1", "status": "in_progress", **TOOLS[kind][0], **fields}
    return {"type": "response.output_item.added", "output_index": 0, "item": item}


def working(kind: str) -> list[Event]:
    place = {"item_id": "t1", "output_index": 0}
    return [{"type": f"response.{kind}.{step}", **place} for step in TOOLS[kind][1]]


@pytest.mark.parametrize("kind", TOOLS)
def test_a_tool_at_work(kind: str) -> None:
    whole = opened(kind, status="completed")["item"]
    events = [opened(kind), *working(kind), done(whole, 0)]
    played = play([created(), *events, delta("a"), completed()])
    steps = [event for event in played.events if event["type"].startswith(f"response.{kind}")]
    assert [event["type"].rsplit(".")[-1] for event in steps] == TOOLS[kind][1]
    assert {event["item_id"] for event in steps} == {played.output[0]["id"]}
    assert played.output[0] == whole | {"id": played.output[0]["id"]}
    assert len(played.run.entries()) == 2


@pytest.mark.parametrize("kind", TOOLS)
def test_text_waits_for_a_tool_at_work(kind: str) -> None:
    whole = opened(kind, status="completed")["item"]
    events = [opened(kind), delta("a"), *working(kind), done(whole, 0)]
    played = play([created(), *events, completed()])
    assert [item["type"] for item in played.output] == [kind, "message"]
    assert played.output[0]["status"] == "completed"


@pytest.mark.parametrize("kind", TOOLS)
def test_a_tool_without_an_end(kind: str) -> None:
    events = [created(), opened(kind), *working(kind)]
    finished = play([*events, completed()])
    assert finished.output[0]["status"] == "completed"
    assert len(finished.run.entries()) == 1
    for cut in (play(events), play([*events, ended("incomplete")])):
        assert cut.output[0]["status"] in ("failed", "incomplete")
        assert cut.run.entries() == []


#: What a tool streams of its own, by the type of its item: the events' kinds and fields.
STREAMED: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "code_interpreter_call": [
        ("code_interpreter_call_code.delta", {"delta": "1+"}),
        ("code_interpreter_call_code.delta", {"delta": "1"}),
        ("code_interpreter_call_code.done", {"code": "1+1"}),
    ],
    "mcp_call": [
        ("mcp_call_arguments.delta", {"delta": '{"a"'}),
        ("mcp_call_arguments.delta", {"delta": ":1}"}),
        ("mcp_call_arguments.done", {"arguments": '{"a":1}'}),
        ("mcp_call.failed", {}),
    ],
    "mcp_list_tools": [(f"mcp_list_tools.{step}", {}) for step in ("in_progress", "completed")],
    "image_generation_call": [
        (
            "image_generation_call.partial_image",
            {"partial_image_index": n, "partial_image_b64": "iVBORw0KGgo="},
        )
        for n in (0, 1)
    ],
    "zebra_call": [
        ("zebra_call.delta", {"delta": {"stripes": [1, None]}}),
        ("zebra_call_stripes.done", {"stripes": 7, "text": ""}),
    ],
}
WHOLE: dict[str, Item] = {kind: fields for kind, (fields, _) in TOOLS.items()} | {
    "mcp_list_tools": {"server_label": "s", "tools": []},
    "zebra_call": {"stripes": 7},
}


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("kind", STREAMED)
def test_what_a_tool_streams_passes_about_the_item_the_client_knows(kind: str, named: bool) -> None:
    item: Item = {"type": kind, "id": "t1", "status": "completed", **WHOLE[kind]}
    first = {**item, "status": "in_progress"}
    opening = {"type": "response.output_item.added", "output_index": 4, "item": first}
    place = {"output_index": 4} | ({"item_id": "t1"} if named else {})
    streamed = [{"type": f"response.{k}", **place, **fields} for k, fields in STREAMED[kind]]
    played = play(
        [created(), delta("a"), opening, *streamed, done(item, 4), delta("b"), completed()]
    )
    if kind != "zebra_call":
        assert played.terminal["status"] == "completed"
    shown = next(e["item"] for e in played.of("output_item.added") if e["item"]["type"] == kind)
    kinds = {event["type"] for event in streamed}
    passed = [event for event in played.events if event["type"] in kinds]
    ours = {"item_id": shown["id"], "output_index": 1}
    assert [{**e, "sequence_number": 0} for e in passed] == [
        {**e, **ours, "sequence_number": 0} for e in streamed
    ]
    assert shown["id"] != "t1"
    assert shown["type"] == kind


SOUND: list[Event] = [
    {"type": "response.audio.delta", "delta": "UklGRg=="},
    {"type": "response.audio.transcript.delta", "delta": "hi"},
    {"type": "response.audio.transcript.done"},
    {"type": "response.audio.done"},
    {"type": "response.zebra.moved", "herd": {"id": "kept"}},
]


def test_events_about_no_item_pass_between_deltas() -> None:
    events = [created(), delta("a"), *SOUND, delta("b"), done(message("ab")), completed()]
    played = play(events)
    kinds = {event["type"] for event in SOUND}
    passed = [event for event in played.events if event["type"] in kinds]
    assert [{**event, "sequence_number": 0} for event in passed] == [
        {**event, "sequence_number": 0} for event in SOUND
    ]
    assert played.output[0]["content"][0]["text"] == "ab"


def test_a_late_step_of_a_tool_is_dropped() -> None:
    whole = opened("web_search_call", status="completed")["item"]
    events = [done(whole, 0), *working("web_search_call"), delta("a")]
    played = play([created(), *events, completed()])
    assert not played.of("web_search_call.searching")
    assert not play([created(), *working("mcp_call"), completed()]).of("mcp_call.in_progress")


def test_a_step_that_names_no_place_gets_one() -> None:
    step = {"type": "response.web_search_call.searching", "item_id": "t1"}
    played = play([created(), opened("web_search_call"), step, completed()])
    assert played.of("web_search_call.searching")[0]["output_index"] == 0


def test_what_is_said_of_a_call_stays() -> None:
    first = {"type": "response.output_item.added", "output_index": 0}
    action = {"type": "screenshot"}
    item: Item = {"type": "computer_call", "id": "cu1", "call_id": "c1", "action": action}
    item |= {"pending_safety_checks": [], "status": "in_progress"}
    last = done(item | {"call_id": "other", "status": "completed"}, 0)
    played = play([created(), {**first, "item": item}, last, completed()])
    assert played.output[0]["call_id"] == "c1"
