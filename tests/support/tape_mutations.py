"""Bodies of backends there is no tape of: a tape of a near relative, changed where they differ."""

from __future__ import annotations

import uuid
from copy import deepcopy
from itertools import count
from typing import TYPE_CHECKING, Any

from lanes.codec import encode
from tests import tapes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Event = dict[str, Any]

#: The bodies by name: each as the reads in which it comes in.
MUTATIONS: dict[str, Callable[[], list[bytes]]] = {}


def _mutation(make: Callable[[], list[bytes]]) -> Callable[[], list[bytes]]:
    MUTATIONS[make.__name__] = make
    return make


def render(events: Iterable[Event], *, named: bool = True) -> bytes:
    """A body that holds these events, with or without `event:` lines."""
    blocks = []
    for event in events:
        head = f"event: {event['type']}\n".encode() if named and "type" in event else b""
        blocks.append(head + b"data: " + encode(event) + b"\n\n")
    return b"".join(blocks)


def without(value: Any, *names: str) -> Any:
    """The value without these keys, however deep they are."""
    if isinstance(value, dict):
        return {key: without(inner, *names) for key, inner in value.items() if key not in names}
    if isinstance(value, list):
        return [without(inner, *names) for inner in value]
    return value


@_mutation
def sglang() -> list[bytes]:
    """All after the message's `added` in one write, `phase`, and null logprobs."""
    events = tapes.events("vllm_text.sse")
    for event in events:
        if event.get("item", {}).get("type") == "message":
            event["item"]["phase"] = "final_answer"
        if "part" in event:
            event["part"]["logprobs"] = None
        if "logprobs" in event:
            event["logprobs"] = None
    at = next(n for n, e in enumerate(events) if e.get("item", {}).get("type") == "message")
    return [*(render([event]) for event in events[: at + 1]), render(events[at + 1 :])]


@_mutation
def hf() -> list[bytes]:
    """No `event:` lines, no logprobs, and every `added` claims the first place."""
    events = without(tapes.events("vllm_text.sse"), "logprobs")
    for event in events:
        if event["type"] == "response.output_item.added":
            event["output_index"] = 0
    return [render(events, named=False)]


@_mutation
def lmstudio() -> list[bytes]:
    """The reasoning is one `reasoning_text.done` that nothing announced."""
    events = tapes.events("openai_text.sse")
    place = {"item_id": "rs_x", "output_index": 0, "content_index": 0}
    whole = {"type": "response.reasoning_text.done", **place, "text": "All of it."}
    kept = [e for e in events if "summary" not in e["type"] and not _reasoning(e)]
    kept.insert(2, whole)
    kept[-1]["response"]["output"].pop(0)
    return [render(kept)]


def _reasoning(event: Event) -> bool:
    return bool(event.get("item", {}).get("type") == "reasoning")


@_mutation
def copilot() -> list[bytes]:
    """Each event has its own name for the item it is about."""
    fresh = (f"{number:x}=" for number in count(0xABC00))
    events = tapes.events("openai_text.sse")
    for event in events:
        if "item_id" in event:
            event["item_id"] = next(fresh)
        for item in (event.get("item"), *event.get("response", {}).get("output", ())):
            if item:
                item["id"] = next(fresh)
    return [render(events)]


@_mutation
def xai() -> list[bytes]:
    """Bare UUIDs, and reasoning as `reasoning_text`."""
    names: dict[str, str] = {}
    events = tapes.events("openai_text.sse")
    made = []
    for event in events:
        kind = event["type"].replace("reasoning_summary_text", "reasoning_text")
        if "summary_part" in kind:
            continue
        event = {key: _renamed(value, names) for key, value in event.items()} | {"type": kind}
        if "summary_index" in event:
            event["content_index"] = event.pop("summary_index")
        for item in (event.get("item"), *event.get("response", {}).get("output", ())):
            if item and item.get("summary"):
                texts = [part["text"] for part in item["summary"]]
                item["content"] = [{"type": "reasoning_text", "text": text} for text in texts]
                item["summary"] = []
        made.append(event)
    made[-1]["response"]["usage"] |= {"cost_in_usd_ticks": 12, "num_sources_used": 0}
    return [render(made)]


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner, names) for inner in value]
    if isinstance(value, str) and value.startswith(("resp_", "rs_", "msg_")):
        return names.setdefault(value, str(uuid.uuid5(uuid.NAMESPACE_URL, value)))
    return value


@_mutation
def azure() -> list[bytes]:
    """Three events that only keep the connection alive, and its content filters."""
    events = tapes.events("openai_text.sse")
    for at in (1, 5, 9):
        events.insert(at, {"type": "keepalive", "sequence_number": at})
    filters = [{"source_type": "prompt", "content_filter_results": {}}]
    for event in events:
        if "response" in event:
            event["response"]["content_filters"] = filters
    return [render(events)]


@_mutation
def vllm_dead() -> list[bytes]:
    """It dies after the second delta of the message."""
    events = tapes.events("vllm_text.sse")
    deltas = [n for n, e in enumerate(events) if e["type"] == "response.output_text.delta"]
    return [render(events[: deltas[1] + 1])]


@_mutation
def llamacpp_error() -> list[bytes]:
    """An error without a type in the middle."""
    error = {"error": {"code": 500, "message": "x", "type": "server_error"}}
    return [render([*tapes.events("llamacpp_text_tool.sse")[:5], error])]


@_mutation
def error_nested() -> list[bytes]:
    """A nested error, and the failed response after it."""
    created = tapes.events("openai_text.sse")[0]
    error = {"type": "server_error", "code": None, "message": "overloaded", "param": None}
    failed = deepcopy(created["response"]) | {"status": "failed"}
    failed["error"] = {"code": "server_error", "message": "overloaded"}
    return [
        render(
            [
                created,
                {"type": "error", "error": error, "sequence_number": 2},
                {"type": "response.failed", "response": failed, "sequence_number": 3},
            ]
        )
    ]


@_mutation
def error_flat() -> list[bytes]:
    """The error as it is documented, in the middle of a message."""
    events = tapes.events("openai_text.sse")
    at = next(n for n, e in enumerate(events) if e["type"] == "response.output_text.delta")
    error = {"type": "error", "code": "server_error", "message": "overloaded", "param": None}
    return [render([*events[: at + 1], {**error, "sequence_number": at + 1}])]


@_mutation
def vllm_harmony() -> list[bytes]:
    """No place among the parts: it counts from -1."""
    events = tapes.events("vllm_text.sse")
    for event in events:
        if "content_index" in event:
            event["content_index"] = -1
    return [render(events)]


@_mutation
def vllm_renamed() -> list[bytes]:
    """At the end all items have other names, and the call another `call_id`."""
    events = tapes.events("friendli_reasoning_tool.sse")
    for item in events[-1]["response"]["output"]:
        item |= {key: f"{item[key]}_again" for key in ("id", "call_id") if key in item}
    return [render(events)]


@_mutation
def sglang_limit() -> list[bytes]:
    """The limit ends the response, but not the message in it."""
    events = tapes.events("vllm_text.sse")
    details = {"incomplete_details": {"reason": "max_output_tokens"}}
    events[-1]["type"] = "response.incomplete"
    events[-1]["response"] |= {"status": "incomplete", **details}
    return [render(events)]


@_mutation
def sglang_failed() -> list[bytes]:
    """It breaks in the middle, and its end knows nothing of what was streamed."""
    events = tapes.events("vllm_text.sse")
    deltas = [n for n, e in enumerate(events) if e["type"] == "response.output_text.delta"]
    return [render([*events[: deltas[0] + 1], _failed(events, "boom")])]


@_mutation
def sglang_overflow() -> list[bytes]:
    """An input that is too long is an end like others."""
    events = tapes.events("vllm_text.sse")
    return [render([events[0], _failed(events, "longer than the model's context length (4096)")])]


def _failed(events: list[Event], message: str) -> Event:
    response = events[0]["response"] | {"status": "failed", "output": []}
    response["error"] = {"code": "server_error", "message": message}
    return {"type": "response.failed", "response": response, "sequence_number": 99}


@_mutation
def openrouter_error() -> list[bytes]:
    """Alive twice, then an error with a type of its own beside it."""
    events = tapes.events("openrouter_text.sse")
    at = next(n for n, e in enumerate(events) if e["type"] == "response.output_text.delta")
    alive = {"type": "response.keep_alive"}
    error = {"error": {"code": 502, "message": "gone"}, "error_type": "provider_unavailable"}
    return [render([events[0], alive, *events[1 : at + 1], alive, error], named=False)]
