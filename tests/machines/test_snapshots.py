"""The response object: whole, the request's values first, and the same from first to last."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.responses import Response

from lanes.stream.snapshots import DEFAULTS, Snapshots
from lanes.stream.token_usage import usage
from tests.machines.backend import completed, created
from tests.machines.drive import NOW, play
from tests.support.judge_response import KEYS

RID = "resp_" + "0" * 32


def snapshot(
    request: dict[str, Any], upstream: dict[str, Any] | None = None, status: str = "in_progress"
) -> dict[str, Any]:
    snapshots = Snapshots(RID, request, NOW)
    if upstream is not None:
        snapshots.learn(upstream)
    made: dict[str, Any] = json.loads(snapshots.snapshot(status))
    return made


@pytest.mark.parametrize("upstream", [None, {}, {"model": None, "tools": None, "text": None}])
def test_every_key_has_a_value_of_its_type(upstream: dict[str, Any] | None) -> None:
    made = snapshot({"model": "m"}, upstream)
    assert made.keys() == KEYS
    Response.model_validate(made, strict=True)
    assert made["id"] == RID
    assert made["created_at"] == NOW
    for key, value in DEFAULTS.items():
        assert made[key] == ("m" if key == "model" else value)


ECHOED = {
    "instructions": "be brief",
    "max_output_tokens": 0,
    "parallel_tool_calls": False,
    "temperature": 0.0,
    "top_p": 0,
    "metadata": {"a": ""},
    "tool_choice": {"type": "function", "name": "f"},
    "truncation": "auto",
    "user": "",
    "reasoning": {"effort": "low", "summary": None},
    "store": False,
    "previous_response_id": "resp_p",
}


@pytest.mark.parametrize(("key", "value"), ECHOED.items())
def test_the_request_wins_then_the_backend_then_the_default(key: str, value: Any) -> None:
    other = {"truncation": "disabled", "user": "u"}.get(key, DEFAULTS[key])
    assert snapshot({"model": "m", key: value}, {key: other})[key] == value
    if key not in ("store", "previous_response_id"):
        assert snapshot({"model": "m", key: None}, {key: value})[key] == value
    else:
        assert snapshot({"model": "m"}, {key: value})[key] == DEFAULTS[key]
    assert snapshot({"model": "m", key: None}, {key: None})[key] == DEFAULTS[key]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", "r9"),
        ("object", "x"),
        ("status", "completed"),
        ("output", [1]),
        ("usage", {"input_tokens": 1}),
        ("error", {"message": "x"}),
        ("background", True),
        ("conversation", {"id": "conv"}),
        ("completed_at", 5),
        ("timings", {}),
    ],
)
def test_what_is_ours_alone_is_never_the_backends(key: str, value: Any) -> None:
    assert snapshot({"model": "m"}, {key: value}) == snapshot({"model": "m"})


@pytest.mark.parametrize("asked", [True, False, None])
def test_background_is_what_was_asked(asked: bool | None) -> None:
    request = {"model": "m", "background": asked}
    assert snapshot(request, {"background": not asked})["background"] is bool(asked)


@pytest.mark.parametrize("created_at", [1, 1.5, 0])
def test_created_at_stays_as_it_was_sent(created_at: float) -> None:
    made = snapshot({"model": "m"}, {"created_at": created_at})["created_at"]
    assert (made, type(made)) == (created_at, type(created_at))


NO_TIMES: list[Any] = [
    None,
    True,
    "2026",
    [],
    -1,
    1e12,
    1_780_000_000_000,
    10**400,
    float("inf"),
    float("nan"),
]


@pytest.mark.parametrize("created_at", NO_TIMES)
def test_a_created_at_that_is_no_time_is_ours(created_at: Any) -> None:
    assert snapshot({"model": "m"}, {"created_at": created_at})["created_at"] == NOW


def test_what_came_first_never_changes_and_what_is_new_is_added() -> None:
    changed = {"model": "n", "created_at": 9, "temperature": 0.1, "x": 1, "y": 2}
    played = play([created(model="b", created_at=5, x=0), completed(**changed)], {})
    first, _, last = (event["response"] for event in played.events)
    assert (first["model"], first["created_at"], first["x"]) == ("b", 5, 0)
    same = ("model", "created_at", "x")
    assert [last[key] for key in same] == [first[key] for key in same]
    assert (first["temperature"], last["temperature"]) == (1.0, 0.1)
    assert "y" not in first
    assert last["y"] == 2
    assert last["completed_at"] == NOW


LATE: dict[str, Any] = {"top_p": 0.5, "truncation": "auto", "user": "u", "moderation": None}


@pytest.mark.parametrize(("key", "value"), LATE.items())
def test_what_comes_late_replaces_a_default_only(key: str, value: Any) -> None:
    def last(request: dict[str, Any], **first: Any) -> Any:
        return play([created(**first), completed(**{key: value})], request).terminal[key]

    other = {"top_p": 0.25, "truncation": "disabled", "user": "v"}.get(key)
    assert last({"model": "m"}) == value
    assert last({"model": "m"}, **{key: None}) == value
    assert last({"model": "m"}, **{key: {"no": "such"}}) == value
    if other is not None:
        assert last({"model": "m"}, **{key: other}) == other
        assert last({"model": "m", key: other}) == other


def test_the_service_tier_is_the_one_that_was_used() -> None:
    def tiers(asked: Any, *given: Any) -> list[Any]:
        first, last = (created(service_tier=given[0]), completed(service_tier=given[1]))
        played = play([first, last], {"model": "m", "service_tier": asked})
        return [
            event["response"]["service_tier"]
            for event in (played.events[0], *played.of("completed"))
        ]

    assert tiers(None, None, None) == ["auto", "auto"]
    assert tiers("flex", None, None) == ["flex", "flex"]
    assert tiers("flex", "zebra", 5) == ["flex", "flex"]
    assert tiers("flex", None, "default") == ["flex", "default"]
    assert tiers("flex", "default", None) == ["default", "default"]
    assert tiers(None, "auto", "default") == ["auto", "default"]


COUNTED: dict[str, Any] = {"image_gen": {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}}
COUNTED["image_gen"] |= {"input_tokens_details": {"image_tokens": 0, "text_tokens": 0}}
OUTCOMES: dict[str, list[Any]] = {
    "tool_usage": [COUNTED | {"web_search": {"num_requests": n}} for n in (0, 1)],
    "prompt_cache_diagnostics": [{"type": "unavailable"}, {"type": "cache_hit"}],
    "access_programs": [{"cyber": "standard"}, {"cyber": "daybreak_red"}],
    "input_transformations": [
        [{"id": "rs1", "action": "removed", "type": "reasoning", "reason": reason}]
        for reason in ("model_mismatch", "turn_boundary")
    ],
    "moderation": [
        {key: {"type": "error", "code": code, "message": "m"} for key in ("input", "output")}
        for code in "ab"
    ],
}


@pytest.mark.parametrize(("key", "values"), OUTCOMES.items())
def test_what_a_response_came_to_is_what_was_said_last(key: str, values: list[Any]) -> None:
    first, last = values
    for given, shown in (
        ((None, last), last),
        ((first, last), last),
        ((first, None), first),
        ((first, "zebra"), first),
        ((None, None), None),
    ):
        events = [created(**{key: given[0]}), completed(**{key: given[1]})]
        played = play(events, {"model": "m"})
        assert played.terminal[key] == shown
        assert played.events[0]["response"][key] == given[0]


def test_a_null_that_was_said_first_is_no_answer_and_stays() -> None:
    assert play([created(x=None), completed(x=1)]).terminal["x"] == 1
    assert play([created(x=None), completed()]).terminal["x"] is None


def test_a_model_that_is_named_late_is_no_change() -> None:
    played = play([created(), completed(model="b")], {})
    assert [event["response"]["model"] for event in played.events] == ["", "", ""]


def test_text_and_tools_have_what_the_official_types_ask_for() -> None:
    tools = [{"type": "function", "name": "f"}, {"type": "web_search"}]
    made = snapshot({"model": "m", "text": {"verbosity": "low"}, "tools": tools})
    assert made["text"] == {"verbosity": "low", "format": {"type": "text"}}
    assert made["tools"][0] == {"type": "function", "name": "f", "parameters": None, "strict": None}
    Response.model_validate(made, strict=True)
    schema = {"format": {"type": "json_object"}}
    assert snapshot({"model": "m", "text": schema})["text"] == schema
    assert snapshot({"model": "m", "text": {}})["text"] == {"format": {"type": "text"}}


@pytest.mark.parametrize("tools", [5, "x", {"a": 1}, [5]])
def test_tools_that_are_none_break_nothing(tools: Any) -> None:
    assert isinstance(snapshot({"model": "m"}, {"tools": tools})["tools"], list)


def test_a_conversation_is_an_object() -> None:
    assert snapshot({"model": "m", "conversation": "conv_1"})["conversation"] == {"id": "conv_1"}
    given = {"id": "conv_1"}
    assert snapshot({"model": "m", "conversation": given})["conversation"] == given


DETAILS: dict[str, Any] = {"input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}}
DETAILS["output_tokens_details"] = {"reasoning_tokens": 0}
COUNTS: list[tuple[Any, Any]] = [
    (None, None),
    (5, None),
    ({}, None),
    ({"total_tokens": 9}, None),
    ({"input_tokens": None, "output_tokens": True}, None),
    ({"input_tokens": 3, "output_tokens": 4}, (3, 4, 7)),
    ({"input_tokens": 3}, (3, 0, 3)),
    ({"input_tokens": 3, "output_tokens": 4, "total_tokens": None}, (3, 4, 7)),
    ({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 8, "cost": 1}, (3, 4, 8)),
    ({"input_tokens": 3, "output_tokens": 4, "input_tokens_details": None}, (3, 4, 7)),
    ({"input_tokens": 3, "output_tokens": 4, "output_tokens_details": {"x": 1}}, (3, 4, 7)),
]


@pytest.mark.parametrize(("reported", "counts"), COUNTS)
def test_usage(reported: Any, counts: tuple[int, int, int] | None) -> None:
    made = usage(reported)
    if counts is None:
        assert made is None
        assert play([created(), completed(usage=reported)]).terminal["usage"] is None
    else:
        read, written, total = counts
        counted = {"input_tokens": read, "output_tokens": written, "total_tokens": total}
        assert made == {**DETAILS, **counted}


def test_usage_keeps_its_details() -> None:
    into, out = {"cached_tokens": 2, "cache_write_tokens": 1}, {"reasoning_tokens": 3}
    for one, two in (("input", "output"), ("prompt", "completion")):
        given: dict[str, Any] = {f"{one}_tokens": 5, f"{two}_tokens": 4}
        given |= {f"{one}_tokens_details": into, f"{two}_tokens_details": out}
        made = usage(given)
        assert made is not None
        assert (made["input_tokens_details"], made["output_tokens_details"]) == (into, out)


@pytest.mark.parametrize(
    ("key", "asked", "shown"),
    [
        ("access_programs", {"cyber": "standard"}, {"cyber": "standard"}),
        ("access_programs", {}, None),
        ("image", {"context_compression": "disabled"}, {"context_compression": "disabled"}),
        ("image", {"context_compression": "auto"}, None),
        ("prompt_cache_options", {"mode": "explicit"}, {"mode": "explicit", "ttl": "30m"}),
        (
            "prompt_cache_options",
            {"ttl": "12h", "mode": None, "prewarm": True, "comparison_response_id": "resp_1"},
            {"mode": "implicit", "ttl": "12h", "comparison_response_id": "resp_1"},
        ),
        ("prompt_cache_options", {"ttl": "1h"}, None),
        ("prompt_cache_options", {}, {"mode": "implicit", "ttl": "30m"}),
    ],
)
def test_what_was_asked_for_is_echoed(key: str, asked: Any, shown: Any) -> None:
    played = play([created(), completed()], {"model": "m", key: asked})
    assert played.terminal.get(key) == shown
    assert [event["response"].get(key) for event in played.events] == [shown] * 3


def test_the_access_program_that_was_used_is_the_last_word() -> None:
    used = {"cyber": "daybreak_blue"}
    request = {"model": "m", "access_programs": {"cyber": "standard"}}
    assert (
        play([created(), completed(access_programs=used)], request).terminal["access_programs"]
        == used
    )
