"""Every key that the gateway uses is checked, each wrong one named (protocol.md 2)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.events import reply
from tests.support.wire_stand import shape, talking


def compacting(threshold: object) -> dict[str, Any]:
    """A create's threshold for compaction."""
    return {"context_management": [{"type": "compaction", "compact_threshold": threshold}]}


BAD: dict[str, tuple[Any, ...]] = {
    "model": (1, True, [], {}, ["m"]),
    "input": (None, 1, 1.5, True, {}, {"role": "user", "content": "x"}),
    "previous_response_id": (1, False, [], {}, ["resp_x"]),
    "conversation": (1, True, ["conv_1"]),
    "tools": (1, "x", True, {}),
    "generate": (None, 0, 1, "false", [], {}),
    "store": (0, 1, "true", [], {}),
    "background": (0, 1, "false", [], {}),
    "metadata": (1, "x", True, [], [["k", "v"]]),
    "instructions": (5, False, [], {}),
    "temperature": ("x", "0.5", True, [], {}),
    "top_p": ("1", False),
    "max_output_tokens": ("16", 16.5, True, []),
    "max_tool_calls": ("1", 1.5, False),
    "top_logprobs": ("1", 2.5, True),
    "parallel_tool_calls": (0, "true"),
    "include": ("reasoning.encrypted_content", {}, 1),
    "prompt_cache_key": (1, [], {}),
    "reasoning": ("high", [], 1, True),
    "text": ("json", [], False),
    "tool_choice": (1, True, []),
    "truncation": (True, 1, {}),
    "context_management": ("x", 1, {}),
}
#: Deeper faults, with the param that is named.
DEEP: tuple[tuple[dict[str, Any], str], ...] = (
    ({"input": ["x"]}, "input[0]"),
    ({"input": [{"role": "user", "content": "x"}, 1]}, "input[1]"),
    ({"input": [[]]}, "input[0]"),
    ({"input": [None]}, "input[0]"),
    ({"tools": [None]}, "tools[0]"),
    ({"tools": [{"type": "function", "name": "f"}, "x"]}, "tools[1]"),
    ({"conversation": {}}, "conversation.id"),
    ({"conversation": {"id": 1}}, "conversation.id"),
    ({"metadata": {"k": 5}}, "metadata"),
    ({"metadata": {"k": None}}, "metadata"),
    ({"metadata": {"k": ["v"]}}, "metadata"),
    ({"input": [{"type": 7}]}, "input[0].type"),
    ({"input": [{"role": "user", "content": "x"}, {"role": []}]}, "input[1].role"),
    ({"input": [{"role": "user", "content": 5}]}, "input[0].content"),
    ({"input": [{"role": "user", "content": {"type": "input_text"}}]}, "input[0].content"),
    ({"tools": [{"type": 5}]}, "tools[0].type"),
    ({"tools": [{"type": "function", "name": 5}]}, "tools[0].name"),
    ({"tools": [{"type": "function", "name": "f", "parameters": []}]}, "tools[0].parameters"),
    ({"tools": [{"type": "function", "name": "f", "strict": "no"}]}, "tools[0].strict"),
    ({"tool_choice": {"type": 5}}, "tool_choice.type"),
    ({"tool_choice": {"type": ["function"]}}, "tool_choice.type"),
    ({"include": [7]}, "include[0]"),
    ({"include": ["reasoning.encrypted_content", None]}, "include[1]"),
    ({"reasoning": {"effort": 3}}, "reasoning.effort"),
    ({"reasoning": {"summary": True}}, "reasoning.summary"),
    ({"text": {"format": "json_object"}}, "text.format"),
    ({"text": {"format": {"type": 1}}}, "text.format.type"),
    ({"text": {"verbosity": 1}}, "text.verbosity"),
    ({"stream_options": {"include_obfuscation": 0}}, "stream_options.include_obfuscation"),
    ({"prompt": {"id": 7}}, "prompt.id"),
    ({"context_management": [7]}, "context_management[0]"),
    ({"context_management": [{}]}, "context_management[0].type"),
    (compacting("1"), "context_management[0].compact_threshold"),
    (compacting(1.5), "context_management[0].compact_threshold"),
    (compacting(1e30), "context_management[0].compact_threshold"),
    (compacting(True), "context_management[0].compact_threshold"),
)
VALUES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"background": True}, "background"),
    ({"previous_response_id": "resp_1", "conversation": "conv_1"}, "conversation"),
    ({"metadata": {str(n): "v" for n in range(17)}}, "metadata"),
    ({"metadata": {"k" * 65: "v"}}, "metadata"),
    ({"tools": [{"type": "custom", "name": "f"}] * 1025}, "tools"),
    ({"metadata": {"k": "v" * 513}}, "metadata"),
    ({"truncation": "left"}, "truncation"),
    (compacting(-1), "context_management[0].compact_threshold"),
    (compacting(0), "context_management[0].compact_threshold"),
)


@pytest.mark.parametrize("lane", ["a", None])
async def test_wrong_types_and_values(lane: str | None) -> None:
    async with talking() as (stand, client):
        busy = await stand.lane(client, lane)
        for key, values in BAD.items():
            for value in values:
                await client.create(lane, **{key: value})
                event = await client.event()
                assert shape(event) == ("invalid_type", 400, key, lane), (key, value)
                assert event["error"]["type"] == "invalid_request_error"
                assert event["error"]["message"].startswith(f"'{key}' must be ")
        for code, cases in (("invalid_type", DEEP), ("invalid_value", VALUES)):
            for extra, param in cases:
                await client.create(lane, **extra)
                assert shape(await client.event()) == (code, 400, param, lane), extra
        await client.send({"type": "response.create", "input": "x", "stream_id": "other"})
        missing = ("missing_required_parameter", 400, "model", "other")
        assert shape(await client.event()) == missing
        assert len(stand.fake.exchanges) == 1
        await busy.ends()


async def test_a_local_refusal_evicts_nothing() -> None:
    async with talking() as (stand, client):
        parent = (await (await stand.lane(client, "a")).ends())["id"]
        for extra in ({"tools": 1}, {"metadata": {"k": 5}}, {"background": True}, {"model": 3}):
            await client.create("a", previous_response_id=parent, **extra)
            assert (await client.event())["type"] == "error"
        lane = await stand.lane(client, "a", previous_response_id=parent)
        assert len(lane.exchange.input) == 3
        await lane.ends()


async def test_what_is_allowed_passes_unchanged() -> None:
    """Absent stays absent, null stays null, 0, false, "" and unknown keys survive."""
    extra: dict[str, Any] = {
        "temperature": 0,
        "parallel_tool_calls": False,
        "instructions": "",
        "top_p": None,
        "tools": None,
        "metadata": {"k" * 64: "v" * 512, "é" * 64: ""} | {str(n): "" for n in range(14)},
        "conversation": None,
        "x_vendor": {"deep": [1, None, {}], "": ""},
        "reasoning": {"effort": None},
        "frequency_penalty": -0.0,
        "max_output_tokens": -1,
        "top_logprobs": 10**30,
        "text": {"format": {"type": None}, "verbosity": None, "x_vendor": 1},
        "tool_choice": None,
        "prompt": {"id": None},
        "include": [],
        "service_tier": "x_vendor",
        "stop": ["x"],
    }
    async with talking(lambda _: reply("ok"), model="fallback") as (stand, client):
        await client.create("a.b-c_1", event_id="e", stream=False, generate=True, **extra)
        await client.ended("a.b-c_1")
        body = stand.fake.exchanges[0].body
        assert {key: body[key] for key in extra} == extra
        assert body["model"] == "m"
        assert body["stream"] is True
        assert not {"type", "stream_id", "generate", "event_id"} & body.keys()
        assert body.keys() == extra.keys() | {"model", "input", "stream", "store"}
        for model in ({"model": None}, {}):
            await client.send({"type": "response.create", "input": "x", **model})
            await client.ended(None)
            assert stand.fake.exchanges[-1].body["model"] == "fallback"


async def test_string_list_empty_and_no_input() -> None:
    async with talking(lambda _: reply("ok")) as (stand, client):
        parent = None
        turns: tuple[dict[str, Any], ...] = (
            {"input": "hi"},
            {"input": [{"role": "user", "content": "x"}]},
            {"input": []},
            {},
        )
        for turn in turns:
            frame = {"type": "response.create", "model": "m", "stream_id": "a", **turn}
            await client.send({**frame, "store": False, "previous_response_id": parent})
            parent = (await client.ended("a"))["id"]
        sizes = [len(exchange.input) for exchange in stand.fake.exchanges]
        assert sizes == [1, 3, 4, 5]
