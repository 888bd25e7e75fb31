"""field-cases.md 4: what a continuation carries, each item once and value for value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.events import (
    call,
    completed,
    created,
    data,
    item_added,
    item_done,
    message,
    reply,
)
from tests.support.gateway_stand import said, stand


@pytest.mark.parametrize("output", [[], None, "absent"])
async def test_b20_an_empty_terminal_list_is_rebuilt(output: object) -> None:
    ending: dict[str, Any] = {"type": "response.completed", "response": {"id": "r1"}}
    if output != "absent":
        ending["response"]["output"] = output
    chunks = [created(), item_done(call("w"), 1), item_done(message("hi"), 0), data(ending)]
    async with stand() as on:
        _, first = await on.turn("a", chunks)
        assert [item["type"] for item in first["output"]] == ["message", "function_call"]
        result = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}
        second, _ = await on.turn("a", previous_response_id=first["id"], input=[result])
        kinds = [item.get("type", "message") for item in second.input]
        assert kinds == ["message", "message", "function_call", "function_call_output"]
        assert second.input[-1] == result


async def test_b22_three_turns_each_item_once() -> None:
    async with stand() as on:
        _, one = await on.turn("a", reply("ok"), input="my name is Ana")
        _, two = await on.turn("a", reply("fine"), input="good", previous_response_id=one["id"])
        third, _ = await on.turn("a", input="name?", previous_response_id=two["id"])
        assert said(third) == ["my name is Ana", "ok", "good", "fine", "name?"]
        fresh, _ = await on.turn("a", input="who?")
        assert said(fresh) == ["who?"]
        assert "previous_response_id" not in third.body


async def test_b22_two_hundred_turns_carry_each_item_once() -> None:
    async with stand() as on:
        parent = None
        for turn in range(200):
            exchange, response = await on.turn(
                "a", reply(f"a{turn}"), input=f"q{turn}", previous_response_id=parent
            )
            parent = response["id"]
        expected = [text for turn in range(200) for text in (f"q{turn}", f"a{turn}")]
        assert said(exchange) == expected[:-1]


REASONING: dict[str, Any] = {
    "id": "rs1",
    "type": "reasoning",
    "summary": [],
    "content": None,
    "encrypted_content": "gAAA==",
    "x": 0,
}


async def test_b24_reasoning_is_replayed_value_for_value() -> None:
    added = {**REASONING, "encrypted_content": "early"}
    chunks = [created(), item_added(added), item_done(REASONING), item_done(message("m"), 1)]
    async with stand() as on:
        _, first = await on.turn("a", [*chunks, completed("r1", [REASONING, message("m")])])
        second, _ = await on.turn("a", previous_response_id=first["id"])
        assert second.input[1] == REASONING
        assert list(second.input[1]) == list(REASONING)


ODD = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a", "n": []}]}


@pytest.mark.parametrize(
    "extra", [{"x": None}, {"id": "m9", "status": "completed"}, {"k": {"": 0}}]
)
async def test_b24_input_items_are_replayed_value_for_value(extra: dict[str, Any]) -> None:
    item = {**ODD, **extra}
    async with stand() as on:
        first, one = await on.turn("a", input=[item])
        assert first.input == [item]
        second, _ = await on.turn("a", previous_response_id=one["id"])
        assert second.input[0] == item


async def test_b24_numbers_of_items_keep_their_digits() -> None:
    numbers = '{"big":9223372036854775808,"tenth":0.1,"one":1.0,"small":1e-7}'
    item = {**ODD, "n": json.loads(numbers)}
    async with stand() as on:
        _, one = await on.turn("a", input=[item])
        second, _ = await on.turn("a", previous_response_id=one["id"])
        assert second.input[0] == item
        assert type(second.input[0]["n"]["one"]) is float
        assert type(second.input[0]["n"]["big"]) is int
