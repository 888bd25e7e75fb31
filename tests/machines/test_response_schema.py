"""Whatever a request or a backend says: what is echoed of it fits the official types."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
from openai.types.responses import Response

from lanes.stream.response_schema import ECHOES
from lanes.stream.snapshots import DEFAULTS, Snapshots

if TYPE_CHECKING:
    from collections.abc import Iterator

PART = {"type": "input_text", "text": "t"}
SCHEMA = {"name": "n", "schema": {"type": "object"}, "description": "d", "strict": True}
FUNCTION = {"name": "f", "parameters": {"type": "object"}, "strict": True, "description": "d"}
FUNCTION |= {"type": "function", "allowed_callers": ["direct"], "async": False}
FUNCTION |= {"defer_loading": True, "output_schema": {}}
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "d"}
RESULT = {"type": "moderation_result", "model": "m", "flagged": True, "categories": {"a": True}}
RESULT |= {"category_scores": {"a": 0.5}, "category_applied_input_types": {"a": ["text"]}}
DRAWN = {"image_tokens": 1, "text_tokens": 2}
DRAWING: dict[str, Any] = {
    "input_tokens": 1,
    "output_tokens": 2,
    "total_tokens": 3,
    "cached_tokens": 1,
}
DRAWING |= {"cached_tokens_details": {"cached_image_tokens": 1, "cached_text_tokens": 0}}
DRAWING |= {"input_tokens_details": DRAWN, "output_tokens_details": DRAWN}
MISS = {"type": "cache_miss", "cache_missed_tokens": 1, "reason": "tools_changed"}
REMOVED = {"id": "rs", "action": "removed", "type": "reasoning", "reason": "turn_boundary"}

#: Values that fit, by key.
GOOD: dict[str, list[Any]] = {
    "model": ["m"],
    "user": ["u"],
    "safety_identifier": ["s"],
    "prompt_cache_key": ["k"],
    "previous_response_id": ["resp_p"],
    "parallel_tool_calls": [False],
    "store": [False],
    "background": [False],
    "max_output_tokens": [7],
    "max_tool_calls": [7],
    "top_logprobs": [7],
    "temperature": [0.5, 1],
    "top_p": [0.5, 1],
    "presence_penalty": [0.5],
    "frequency_penalty": [0.5],
    "conversation": [{"id": "c"}],
    "instructions": [
        "be brief",
        [
            {"role": "system", "content": "x"},
            {"type": "message", "role": "developer", "content": [PART]},
        ],
    ],
    "metadata": [{"a": "b"}, {}],
    "tools": [
        [FUNCTION],
        [{"type": "custom", "name": "c", "description": "d", "format": GRAMMAR}],
        [{"type": "custom", "name": "c", "format": {"type": "text"}}],
        [{"type": "mcp", "server_label": "s"}],
        [{"type": "file_search", "vector_store_ids": ["v"]}],
        [{"type": "code_interpreter", "container": "c"}],
        [{"type": "code_interpreter", "container": {"type": "auto"}}],
        [
            {
                "type": "computer_use_preview",
                "display_height": 1,
                "display_width": 2,
                "environment": "linux",
            }
        ],
        [{"type": "namespace", "name": "n", "description": "d", "tools": [FUNCTION]}],
        [{"type": "web_search"}, {"type": "shell"}, {"type": "apply_patch"}],
    ],
    "tool_choice": [
        "required",
        {"type": "function", "name": "f"},
        {"type": "custom", "name": "c"},
        {"type": "mcp", "server_label": "s", "name": "n"},
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
        {"type": "computer_use"},
        {"type": "programmatic_tool_calling"},
        {"type": "apply_patch"},
        {"type": "shell"},
    ],
    "text": [
        {"format": {"type": "text"}, "verbosity": "high"},
        {"format": {"type": "json_object"}},
        {"format": {"type": "json_schema", **SCHEMA}},
    ],
    "reasoning": [
        {"effort": "xhigh", "summary": "auto", "generate_summary": "concise"},
        {"mode": "pro", "context": "all_turns"},
        {},
    ],
    "service_tier": ["ultrafast"],
    "truncation": ["auto"],
    "prompt": [{"id": "p", "version": "1", "variables": {"a": "b", "c": PART}}, {"id": "p"}],
    "prompt_cache_retention": ["24h"],
    "prompt_cache_options": [
        {"mode": "implicit", "ttl": "30m", "comparison_response_id": "r"},
    ],
    "prompt_cache_diagnostics": [
        {**MISS, "comparison_reusable_tokens": 5},
        {"type": "cache_hit"},
        {"type": "comparison_response_not_found"},
        {"type": "unavailable"},
    ],
    "access_programs": [{"cyber": "standard"}],
    "image": [{"context_compression": "enabled"}],
    "input_transformations": [[REMOVED]],
    "moderation": [{"input": RESULT, "output": {"type": "error", "code": "c", "message": "m"}}],
    "tool_usage": [{"image_gen": DRAWING, "web_search": {"num_requests": 1}}],
}
#: Whatever a key may hold that does not fit.
ODD: list[Any] = [
    *(None, "", "zz", 0, -1, 5, 2**63, 1.5, True, False, [], {}, [5], [None], [[]], [{}], ["x"]),
    *({"a": 1}, {"id": 5}, {"type": None}, {"type": "zz"}, {"type": 5}),
    *([{"type": "function"}], [{"type": "function", "name": 5}], {"type": "function"}),
    *({"format": "x"}, {"format": {"type": "zz"}}, {"format": {"type": "json_schema"}}),
    *({"effort": "zz"}, {"effort": 5}, {"verbosity": "zz"}, {"input": {}, "output": {}}),
]
ASKED = {*DEFAULTS, "prompt", "prompt_cache_retention", "prompt_cache_options", "conversation"}
ASKED |= {"image", "access_programs"}
#: Where a type that the official ones do not know may be one of the future's.
OPEN = ("tools", "instructions", "prompt")


def shown(request: dict[str, Any], *upstream: dict[str, Any]) -> dict[str, Any]:
    snapshots = Snapshots("resp_" + "0" * 32, request, 5)
    for response in upstream:
        snapshots.learn(response)
    made: dict[str, Any] = json.loads(snapshots.snapshot("in_progress"))
    return made


def spoiled(value: Any) -> Iterator[Any]:
    """The value with each thing in it replaced by each odd one, or left out."""
    for owner, key in list(places(value)):
        kept = owner[key]
        for odd in ODD:
            owner[key] = odd
            yield value
        if isinstance(owner, dict):
            del owner[key]
            yield value
        owner[key] = kept


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


def kinds(value: Any) -> set[str]:
    return set(re.findall(r"'type': '(\w+)'", str(value)))


def test_every_key_of_the_official_type_is_known() -> None:
    ours = {"id", "object", "created_at", "completed_at", "status", "error", "incomplete_details"}
    ours |= {"output", "usage"}
    # These are the reference's, and not the SDK's.
    keys = Response.model_fields.keys() | {"presence_penalty", "frequency_penalty", "store"}
    assert keys - ours == ECHOES.keys()
    assert GOOD.keys() == ECHOES.keys()
    assert DEFAULTS.keys() <= ECHOES.keys()


@pytest.mark.parametrize("key", GOOD)
def test_what_fits_is_echoed(key: str) -> None:
    for value in GOOD[key]:
        made = shown({"model": "m", key: value})
        assert made.get(key) == (value if key in ASKED else None)
        Response.model_validate(made, strict=True)
        if key not in ("previous_response_id", "store", "background", "conversation", "model"):
            made = shown({"model": "m"}, {key: value})
            assert made[key] == value
            Response.model_validate(made, strict=True)


@pytest.mark.parametrize("key", GOOD)
def test_what_does_not_fit_is_not_echoed(key: str) -> None:
    for good in GOOD[key]:
        for odd in spoiled({key: deepcopy(good)}):
            source = {"model": "m", **odd}
            for made in (
                shown(source),
                shown({"model": "m"}, source),
                shown({"model": "m"}, {}, source),
            ):
                if key not in OPEN or kinds(made.get(key)) <= kinds(GOOD[key]):
                    Response.model_validate(made, strict=True)


@pytest.mark.parametrize("key", sorted(DEFAULTS.keys() - {"store", "background"}))
def test_the_next_source_serves_for_what_does_not_fit(key: str) -> None:
    good: Any = GOOD[key][0]
    odd: Any = True if ECHOES[key](5) else 5
    if key != "previous_response_id":
        assert shown({key: odd}, {key: good})[key] == good
        assert shown({}, {key: odd}, {key: good})[key] == (good if key != "model" else "")
    assert shown({key: odd}, {key: odd})[key] == DEFAULTS[key]


def test_tools_that_are_none_are_left_out() -> None:
    kept = [{"type": "zz", "k": 1}, {"type": "web_search"}]
    odd: list[Any] = [5, None, {}, {"type": 5}, "x", {"type": "function"}, []]
    assert shown({"tools": [*odd, *kept]})["tools"] == kept
    assert shown({}, {"tools": [*kept, *odd]})["tools"] == kept


def test_instructions_that_are_none() -> None:
    for odd in ({"type": "message"}, {"type": "message", "role": "zz", "content": "x"}, {}):
        assert shown({}, {"instructions": [odd]})["instructions"] is None
