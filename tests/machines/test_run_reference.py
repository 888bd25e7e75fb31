"""Details of the reference: asynchronous tools, padding, agents, summaries, hosted items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lanes.codec import encode
from lanes.stream.run_states import RunState
from tests.machines import backend
from tests.machines.drive import REQUEST, Event, Played, play, start

if TYPE_CHECKING:
    from collections.abc import Iterable

LOOK: dict[str, Any] = {"type": "function", "name": "look", "parameters": {}, "strict": False}
STUB = {"type": "function_call_output", "call_id": "c1", "name": "look"}
PADDING = {"obfuscation": "xY"}
ROOT, CHILD = {"agent_name": "/root"}, {"agent_name": "/root/child"}


def called(tools: list[dict[str, Any]], **fields: Any) -> Played:
    """A response that calls `look`."""
    call = backend.call(**fields)
    events = [backend.created(), backend.added(call, 0), backend.args("{}"), backend.done(call, 0)]
    return play([*events, backend.completed()], {**REQUEST, "tools": tools})


@pytest.mark.parametrize(
    ("tools", "fields", "owed"),
    [
        ([LOOK], {}, True),
        ([{**LOOK, "async": True}], {}, False),
        ([{**LOOK, "async": False}], {}, True),
        ([{**LOOK, "async": None}], {}, True),
        ([{**LOOK, "async": True}], {"async": False}, True),
        ([LOOK], {"async": True}, False),
        ([{**LOOK, "name": "other", "async": True}], {}, True),
        ([{"type": "namespace", "name": "n", "tools": [{**LOOK, "async": True}]}], {}, True),
        (
            [{"type": "namespace", "name": "n", "tools": [{**LOOK, "async": True}]}],
            {"namespace": "n"},
            False,
        ),
        ([None, {"name": 1}, "x", {**LOOK, "async": True}], {}, False),
    ],
)
def test_the_output_of_an_asynchronous_tool_is_not_asked_for(
    tools: list[dict[str, Any]], fields: dict[str, Any], owed: bool
) -> None:
    played = called(tools, **fields)
    assert played.run.required_input() == ([STUB] if owed else [])
    judged = played.terminal["output"][0]
    assert judged.get("async") == fields.get("async")


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_call_that_runs_on_does_not_stop_a_cut(asynchronous: bool) -> None:
    run, _ = start({**REQUEST, "tools": [{**LOOK, "async": asynchronous}]})
    for event in (backend.created(), backend.added(backend.call(), 0), backend.args("{}")):
        run.receive(None, encode(event))
    run.cut()
    assert run.state is RunState.CUTTING
    run.receive(None, encode(backend.done(backend.call(), 0)))
    assert run.state is (RunState.STEERED if asynchronous else RunState.CUTTING)


def summary_of(status: str | None) -> list[Event]:
    """Reasoning with a summary whose part ends with this status."""
    place = {"item_id": "rs1", "output_index": 0, "summary_index": 0}
    part = {"type": "summary_text", "text": ""}
    stem = "response.reasoning_summary"
    ends = {} if status is None else {"status": status}
    return [
        backend.created(),
        backend.added(backend.reasoning(), 0),
        {"type": f"{stem}_part.added", **place, "part": part},
        {"type": f"{stem}_text.delta", **place, "delta": "why"},
        {"type": f"{stem}_text.done", **place, "text": "why"},
        {"type": f"{stem}_part.done", **place, "part": {**part, "text": "why"}, **ends},
    ]


@pytest.mark.parametrize(
    ("given", "kept"), [("incomplete", "incomplete"), (None, None), ("completed", None)]
)
def test_the_end_of_a_summary_keeps_its_status(given: str | None, kept: str | None) -> None:
    played = play([*summary_of(given), backend.completed()])
    assert [event.get("status") for event in played.of("reasoning_summary_part.done")] == [kept]
    assert played.terminal["status"] == "completed"


@pytest.mark.parametrize("how", ["cancel", "cut", "end"])
def test_reasoning_that_was_cut_says_so_and_so_does_its_summary(how: str) -> None:
    run, sent = start()
    for event in summary_of(None)[:4]:
        run.receive(None, encode(event))
    getattr(run, how)()
    [done] = Played(run, sent).of("reasoning_summary_part.done")
    assert done["status"] == "incomplete"
    assert sent[-1]["response"]["output"][0]["status"] == "incomplete"


def test_reasoning_that_is_whole_has_no_status_of_ours() -> None:
    [item] = play([*summary_of(None), backend.completed()]).output
    assert "status" not in item


@pytest.mark.parametrize("asked", [True, False, None])
def test_padding_is_kept_on_all_deltas_or_on_none(asked: bool | None) -> None:
    options = {} if asked is None else {"stream_options": {"include_obfuscation": asked}}
    texts = [backend.delta(text, **PADDING) for text in ("a", "b")]
    texts += [backend.delta("c", x_field=1, **PADDING), backend.delta("d", "rs2", "x", **PADDING)]
    call = [backend.added(backend.call(), 1), backend.args("{}", **PADDING)]
    zebra = {"type": "response.zebra.delta", "delta": "z", **PADDING}
    events = [backend.created(), backend.added(backend.message(), 0), *texts, *call, zebra]
    played = play([*events, backend.completed()], {**REQUEST, **options})
    deltas = [event for event in played.events if event["type"].endswith(".delta")]
    assert len(deltas) == 6
    assert [event.get("obfuscation") for event in deltas] == ["xY" if asked else None] * 6
    assert played.texts("output_text") == "abc"


def of_agents(parts: Iterable[tuple[Event, dict[str, str]]]) -> list[Event]:
    """These events, each of one agent."""
    return [{**event, "agent": agent} for event, agent in parts]


def test_the_agent_of_an_event_is_kept() -> None:
    said, more = backend.message("ab"), backend.message("c", id="m2")
    part = {"type": "response.content_part.added", "item_id": "m1", "content_index": 0}
    part["part"] = {"type": "output_text", "text": ""}
    events = of_agents(
        [
            (backend.created(), ROOT),
            (backend.added(said, 0), ROOT),
            (part, ROOT),
            (backend.delta("a"), ROOT),
            (backend.delta("b"), ROOT),
            (backend.done(said, 0), ROOT),
            (backend.added(more, 1), CHILD),
            (backend.delta("c", "m2"), CHILD),
            ({"type": "response.zebra"}, CHILD),
            (backend.done(more, 1), CHILD),
            (backend.completed(), ROOT),
        ]
    )
    played = play(events)
    assert played.terminal["status"] == "completed"
    agents = [event["agent"] for event in played.events]
    first = next(at for at, event in enumerate(played.events) if event.get("output_index") == 1)
    assert agents[:first] == [ROOT] * first
    assert agents[first:] == [*[CHILD] * (len(agents) - first - 1), ROOT]


def test_an_item_that_the_next_one_ends_keeps_its_own_agent() -> None:
    events = of_agents(
        [
            (backend.created(), ROOT),
            (backend.added(backend.message(), 0), ROOT),
            (backend.delta("a"), ROOT),
            (backend.added(backend.call(), 1), CHILD),
            (backend.args("{}"), CHILD),
        ]
    )
    played = play([*events, backend.completed()])
    done = {event["output_index"]: event["agent"] for event in played.of("output_item.done")}
    assert done == {0: ROOT, 1: CHILD}


def test_without_agents_no_event_has_one() -> None:
    events = [backend.created(), backend.added(backend.message(), 0), backend.delta("a")]
    assert not any("agent" in event for event in play([*events, backend.completed()]).events)


SEARCH = {"type": "search", "query": ""}
#: What a loose backend says of a hosted item, and what the client gets at its end.
HOSTED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"type": "web_search_call"}, {"action": SEARCH, "status": "completed"}),
    ({"type": "web_search_call", "action": None}, {"action": SEARCH}),
    ({"type": "web_search_call", "action": "x"}, {"action": SEARCH}),
    ({"type": "web_search_call", "action": {"type": "dive"}}, {"action": SEARCH}),
    ({"type": "web_search_call", "action": {"query": "q"}}, {"action": SEARCH | {"query": "q"}}),
    (
        {"type": "web_search_call", "status": "failed", "action": {"type": "open_page"}},
        {"action": {"type": "open_page"}, "status": "failed"},
    ),
    ({"type": "file_search_call", "queries": "q"}, {"queries": [], "status": "completed"}),
    ({"type": "code_interpreter_call", "code": "1"}, {"code": "1", "container_id": ""}),
    ({"type": "image_generation_call"}, {"result": None, "status": "completed"}),
    (
        {"type": "mcp_call", "name": "n", "error": "no"},
        {
            "name": "n",
            "server_label": "",
            "error": {
                "type": "mcp_tool_execution_error",
                "content": [{"type": "text", "text": "no"}],
            },
        },
    ),
    (
        {"type": "mcp_call", "arguments": {"a": 1}, "output": [1], "error": {"message": "m"}},
        {
            "arguments": '{"a":1}',
            "output": "[1]",
            "error": {"type": "mcp_tool_execution_error", "content": {"message": "m"}},
        },
    ),
    (
        {"type": "mcp_call", "error": {"type": "http_error", "code": 404, "message": "m"}},
        {"error": {"type": "http_error", "code": 404, "message": "m"}},
    ),
    ({"type": "mcp_call", "error": None, "output": None}, {"error": None, "output": None}),
    ({"type": "mcp_list_tools", "tools": None}, {"tools": [], "server_label": ""}),
]


@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.parametrize(("given", "kept"), HOSTED)
def test_hosted_items_fit_the_types(
    given: dict[str, Any], kept: dict[str, Any], announced: bool
) -> None:
    item = {"id": "h1", **given}
    opening = [{"type": "response.output_item.added", "output_index": 0, "item": item}]
    events = [backend.created(), *(opening if announced else []), backend.done(item, 0)]
    [shown] = play([*events, backend.completed()]).output
    assert {key: shown[key] for key in kept} == kept


@pytest.mark.parametrize("kind", ["web_search_call", "file_search_call", "image_generation_call"])
def test_a_hosted_item_that_never_ends_fits_as_well(kind: str) -> None:
    item = {"id": "h1", "type": kind}
    opening = {"type": "response.output_item.added", "output_index": 0, "item": item}
    run, sent = start()
    for event in (backend.created(), opening):
        run.receive(None, encode(event))
    run.cancel()
    cut = "failed" if kind == "image_generation_call" else "incomplete"
    assert Played(run, sent).output[0]["status"] == cut
