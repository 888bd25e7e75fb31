"""Hosted tools: their own events, and never cut while they work."""

from __future__ import annotations

from typing import Any

import pytest

from tests.machines.backend import Item, completed, created, delta, done, ended
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
