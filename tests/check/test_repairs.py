"""What is amiss in a backend's events, found by name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.tools.check.repairs import RULES, repairs
from gateway.upstream.transport.http.sse import SseSplitter
from tests import tapes
from tests.machines.plausible import spoiled
from tests.machines.test_run_any import EVENTS, JSON
from tests.support.tape_mutations import MUTATIONS

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from tests.machines.drive import Event

#: Friendli's response objects and texts lack keys that the types want; so do Maritaca's texts.
_TEXT = {"no_annotations", "no_logprobs", "thin_usage"}
_LLAMA = {"no_numbers", "no_indices", "thin_snapshots", "private_keys", "thin_usage"}
_OPEN = {"no_item_done", "no_text_done", "no_part_done"}
#: Each body, and all that is amiss in it.
AMISS: dict[str, set[str]] = {
    "friendli_failed.sse": {"thin_snapshots", "no_annotations", "no_logprobs", *_OPEN},
    "friendli_incomplete.sse": {"thin_snapshots", *_TEXT},
    "friendli_reasoning_tool.sse": {"thin_snapshots", "thin_usage"},
    "friendli_text.sse": {"thin_snapshots", *_TEXT},
    "llamacpp_builtin_tool.sse": {*_LLAMA, *_TEXT},
    "llamacpp_max_output_tokens.sse": {*_LLAMA, *_TEXT},
    "llamacpp_plain.sse": {*_LLAMA, *_TEXT},
    "llamacpp_text_tool.sse": {
        *(_LLAMA - {"private_keys"}),
        *_TEXT,
        *("nulls", "open_items", "late_dones", "missing_ids"),
        *("no_part_added", "no_text_done", "no_part_done"),
    },
    "llamacpp_tool_output_turn.sse": {*_LLAMA, *_TEXT},
    "llamacpp_tools_auto.sse": {*_LLAMA, "no_text_done"},
    "llamacpp_tools_cut.sse": {*_LLAMA, "no_text_done"},
    "llamacpp_tools_required.sse": {*_LLAMA, "no_text_done"},
    "maritaca_failed.sse": {"odd_numbers", "no_annotations", "no_logprobs", *_OPEN},
    "maritaca_incomplete.sse": {"odd_numbers", *_TEXT, "hidden_reason"},
    "maritaca_reasoning_tool.sse": {"odd_numbers", "filled_items", "thin_usage", "no_deltas"},
    "maritaca_text.sse": {"odd_numbers", *_TEXT},
    "ollama_text_tool.sse": {
        *("open_items", "colliding_indices", "no_part_added", "unnamed_calls", "thin_usage"),
        *("other_output", *_OPEN),
    },
    "openai_text.sse": {"filled_items", "private_keys", "keepalives"},
    "openrouter_text.sse": {"no_part_added", "no_part_done", "thin_usage", "done_marker"},
    "vllm_text.sse": {"nulls"},
}
#: What a mutation adds to its tape.
MUTATED: dict[str, set[str]] = {
    "sglang": {"nulls", "no_logprobs", "private_keys"},
    "hf": {"nulls", "no_logprobs", "colliding_indices"},
    "lmstudio": {"unannounced_items", "no_part_added"},
    "copilot": {"changing_ids"},
    "vllm_dead": {"no_terminal", *_OPEN},
    "llamacpp_error": {"bare_errors", *_OPEN},
    "error_nested": {"bare_errors", "after_the_end"},
}


def found(body: bytes) -> Counter[str]:
    splitter = SseSplitter(1 << 20)
    return repairs([*splitter.feed(body), *splitter.finish()])


@pytest.mark.parametrize("name", AMISS)
def test_what_each_backend_needs(name: str) -> None:
    assert set(found(tapes.tape(name))) == AMISS[name]


@pytest.mark.parametrize("name", MUTATED)
def test_what_a_mutation_needs_besides(name: str) -> None:
    assert set(found(b"".join(MUTATIONS[name]()))) >= MUTATED[name]


def test_repairs_are_counted() -> None:
    counted = found(tapes.tape("openai_text.sse"))
    assert counted["keepalives"] == 1
    assert found(tapes.tape("ollama_text_tool.sse"))["open_items"] == 1
    events = len(tapes.events("llamacpp_plain.sse"))
    assert found(tapes.tape("llamacpp_plain.sse"))["no_numbers"] == events


USAGE = {
    "input_tokens": 1,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 1,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 2,
}
PLACE = {"item_id": "m", "output_index": 0, "content_index": 0}
PART = {"type": "output_text", "text": "hi", "annotations": [], "logprobs": []}
MESSAGE = {"type": "message", "id": "m", "status": "completed", "role": "assistant"}
CALL = {"type": "function_call", "id": "f", "call_id": "c", "name": "w", "arguments": "{}"}


def snapshot(**more: Any) -> dict[str, Any]:
    head = {"id": "r", "object": "response", "created_at": 1, "status": "completed", "model": "m"}
    tools = {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
    return {**head, **tools, "output": [], "usage": None, **more}


def numbered(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**event, "sequence_number": at} for at, event in enumerate(events)]


def perfect() -> list[dict[str, Any]]:
    """A stream in which nothing is amiss."""
    whole = {**MESSAGE, "content": [PART]}
    empty = {**PART, "text": ""}
    return numbered(
        [
            {"type": "response.created", "response": snapshot()},
            {"type": "response.in_progress", "response": snapshot()},
            {
                "type": "response.output_item.added",
                "output_index": 0,
                "item": {**MESSAGE, "content": []},
            },
            {"type": "response.content_part.added", **PLACE, "part": empty},
            {"type": "response.output_text.delta", **PLACE, "delta": "hi", "logprobs": []},
            {"type": "response.output_text.done", **PLACE, "text": "hi", "logprobs": []},
            {"type": "response.content_part.done", **PLACE, "part": PART},
            {"type": "response.output_item.done", "output_index": 0, "item": whole},
            {"type": "response.completed", "response": snapshot(output=[whole], usage=USAGE)},
        ]
    )


def read(events: list[Any]) -> set[str]:
    """The rules that are broken; an event without a type has it in its `event:` line."""
    name = "response.output_text.delta"
    return set(repairs([(name, json.dumps(event).encode()) for event in events]))


def test_nothing_is_amiss_in_a_perfect_stream() -> None:
    assert read(perfect()) == set()


def drop(*at: int) -> Callable[[list[Any]], list[Any]]:
    return lambda events: numbered([one for n, one in enumerate(events) if n not in at])


def put(at: int, *more: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda events: [*events[:at], *more, *events[at:]]


def change(at: int, **keys: Any) -> Callable[[list[Any]], list[Any]]:
    """Other values for these keys of one event; ... takes one away."""

    def changed(events: list[Any]) -> list[Any]:
        one = {**events[at], **keys}
        made = list(events)
        made[at] = {key: value for key, value in one.items() if value is not ...}
        return made

    return changed


def response(**keys: Any) -> Callable[[list[Any]], list[Any]]:
    """The same for the final response object."""
    return lambda events: change(-1, response={**events[-1]["response"], **keys})(events)


def with_call(*added: str, call_id: str = "c") -> Callable[[list[Any]], list[Any]]:
    """A call whose end has this call_id, without a single delta."""
    place = {"output_index": 1}
    begun = {"type": "response.output_item.added", **place, "item": {**CALL, "arguments": ""}}
    done = {"type": "response.output_item.done", **place, "item": {**CALL, "call_id": call_id}}

    def changed(events: list[Any]) -> list[Any]:
        output = [*events[-1]["response"]["output"], CALL]
        end = {**events[-1], "response": {**events[-1]["response"], "output": output}}
        return numbered([*events[:-1], begun, done, end])

    return changed


#: Each rule, broken once in a stream that is otherwise perfect.
BROKEN: dict[str, Callable[[list[Any]], list[Any]]] = {
    "keepalives": lambda events: numbered(put(3, {"type": "keepalive"})(events)),
    "unreadable": put(3, [1]),
    "untyped": change(4, type=...),
    "no_numbers": change(4, sequence_number=...),
    "odd_numbers": change(4, sequence_number=9),
    "missing_ids": change(4, item_id=...),
    "changing_ids": change(4, item_id="other"),
    "changing_call_ids": with_call(call_id="another"),
    "no_created": drop(0),
    "no_in_progress": drop(1),
    "thin_snapshots": change(0, response={"id": "r"}),
    "no_indices": change(4, content_index=...),
    "colliding_indices": change(2, output_index=3),
    "unannounced_items": drop(2),
    "filled_items": change(2, item={**MESSAGE, "content": [PART]}),
    "no_part_added": drop(3),
    "no_deltas": with_call(),
    "empty_deltas": lambda events: numbered(put(5, {**events[4], "delta": ""})(events)),
    "no_text_done": drop(5),
    "no_part_done": drop(6),
    "no_item_done": drop(7),
    "bare_errors": lambda events: [*events[:5], {"error": {"message": "x"}}],
    "no_terminal": lambda events: events[:-1],
    "after_the_end": lambda events: [*events, {"type": "response.done"}],
    "hidden_reason": response(incomplete_details={"reason": "max_output_tokens"}),
    "other_output": response(output=[]),
    "no_usage": response(usage=None),
    "thin_usage": response(usage={"input_tokens": 1, "output_tokens": 1}),
    "thin_items": change(2, item={"type": "message", "id": "m", "content": []}),
    "no_logprobs": change(4, logprobs=...),
    "no_annotations": change(6, part={"type": "output_text", "text": "hi", "logprobs": []}),
    "nulls": change(6, part={**PART, "logprobs": None}),
    "private_keys": change(4, obfuscation="xyz"),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_each_rule_is_found(rule: str) -> None:
    assert rule in read(BROKEN[rule](perfect()))


@pytest.mark.parametrize("event", [{"type": "error"}, {"error": "x"}, {"error_type": "overloaded"}])
def test_errors_have_many_forms(event: dict[str, Any]) -> None:
    assert "bare_errors" in read([*perfect()[:5], event])


def test_every_rule_is_tried() -> None:
    by_tapes = set().union(*AMISS.values(), *MUTATED.values())
    elsewhere = {"converted"}  # the probes' own, see test_odd
    assert by_tapes | BROKEN.keys() | elsewhere == RULES.keys()


@pytest.mark.parametrize("junk", [[], {}, "x", None, True, 1.5])
@pytest.mark.parametrize(
    "key", ["type", "item_id", "output_index", "content_index", "part", "item", "response"]
)
def test_a_value_may_be_anything(key: str, junk: Any) -> None:
    for at, event in enumerate(perfect()):
        if key in event:
            assert read(change(at, **{key: junk})(perfect())) <= RULES.keys()


@given(spoiled())
def test_garbage_is_read_to_its_end(events: list[Event]) -> None:
    assert read(events) <= RULES.keys()


@given(st.lists(EVENTS | JSON, max_size=6))
def test_any_json_is_read(events: list[Any]) -> None:
    assert read(events) <= RULES.keys()


@given(st.lists(st.tuples(st.none() | st.text(), st.binary(max_size=20)), max_size=3))
def test_any_bytes_are_read(received: list[tuple[str | None, bytes]]) -> None:
    assert repairs(received).keys() <= RULES.keys()
