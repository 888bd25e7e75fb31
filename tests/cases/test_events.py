"""field-cases.md 1: numbers, lanes, and what passes through unchanged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.events import (
    closed,
    completed,
    created,
    data,
    delta,
    event,
    message,
    opened,
    reply,
)
from tests.support.gateway_stand import answer, stand


async def test_b02_numbers_are_the_gateways_own() -> None:
    done = {"output_index": 0, "item": message("a")}
    chunks = [
        data({"type": "response.created", "response": {"id": "r1", "status": "in_progress"}}),
        delta("a", sequence_number=1),
        event("response.output_item.done", **done, sequence_number=1),
        event("response.completed", response={"id": "r1", "status": "completed"}),
    ]
    async with stand() as on:
        _, response = await on.turn("a", chunks)
        numbers = [seen["sequence_number"] for seen in on.client.transcript]
        assert numbers == list(range(len(numbers)))
        assert response["output"][0]["content"][0]["text"] == "a"


async def test_b02_falling_and_huge_numbers() -> None:
    chunks = [created(), *(delta("x", sequence_number=n) for n in (7, 3, -1, 2**70)), completed()]
    async with stand() as on:
        await on.turn("a", chunks)
        numbers = [seen["sequence_number"] for seen in on.client.transcript]
        assert numbers == list(range(len(numbers)))


async def test_b03_zero_is_written_and_every_event_of_our_own_has_a_number() -> None:
    async with stand() as on:
        exchange = await on.asked("a")
        await exchange.send(created())
        exchange.cut()
        await on.client.until("response.failed", lane="a")
        assert [seen["sequence_number"] for seen in on.client.transcript] == [0, 1, 2]
        await on.client.create("a", generate=False)
        await on.client.until("response.completed", lane="a")
        assert [seen["sequence_number"] for seen in on.client.transcript[3:]] == [0, 1, 2]


@pytest.mark.parametrize("lane", ["a", None])
async def test_b04_errors_carry_their_lane_or_no_key(lane: str | None) -> None:
    async with stand() as on:
        gone = await on.refused(lane, previous_response_id="resp_gone")
        exchange = await on.asked(lane)
        await exchange.reply(429, {"error": {"message": "later"}})
        limited = await on.client.error(lane)
        for error in (gone, limited):
            assert error.get("stream_id") == lane
            assert ("stream_id" in error) == (lane is not None)
        assert limited["status"] == 429
        await on.usable(lane)


async def test_b06_unknown_types_fields_and_number_forms_pass() -> None:
    zebra = {"type": "response.zebra.delta", "sequence_number": 2, "k": {"deep": [1, None]}}
    vendor: dict[str, Any] = {"created_at": 1735722153.5, "x_vendor": {"a": 1}}
    async with stand() as on:
        _, response = await on.turn("a", [created(**vendor), data(zebra), completed()])
        striped = next(s for s in on.client.transcript if s["type"] == "response.zebra.delta")
        assert striped == {**zebra, "stream_id": "a", "sequence_number": 2}
        snapshots = [s["response"] for s in on.client.transcript if "response" in s]
        assert {s["created_at"] for s in snapshots} == {1735722153.5}
        assert all(s["x_vendor"] == {"a": 1} for s in snapshots)
        assert response["status"] == "completed"


async def test_b06_created_at_keeps_its_type() -> None:
    async with stand() as on:
        _, whole = await on.turn("a", [created(), completed()])
        assert type(whole["created_at"]) is int
        _, sparse = await on.turn("a", [data({"type": "response.created"}), completed()])
        assert type(sparse["created_at"]) is int


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({"type": "error", "code": None, "message": "overloaded", "param": None}, "overloaded"),
        ({"type": "error", "error": {"type": "server_error", "message": "overloaded"}}, "overload"),
        ({"error": {"message": "boom", "code": 500}}, "boom"),
        ({"type": "error", "message": "m", "sequence_number": 9, "code": "rate_limit_x"}, "m"),
    ],
)
@pytest.mark.parametrize("before", [True, False])
async def test_b07_an_error_of_any_shape_ends_in_one_terminal(
    payload: dict[str, Any], text: str, before: bool
) -> None:
    async with stand() as on:
        exchange = await on.asked("a")
        head = [] if before else [created(), *opened(), delta("par")]
        await answer(exchange, [*head, data(payload), *reply("late")[2:]])
        end = (await on.client.until("error", "response.failed", lane="a"))[-1]
        if before:
            assert (end["type"], end["stream_id"]) == ("error", "a")
            assert text in end["error"]["message"]
        else:
            assert text in end["response"]["error"]["message"]
            assert end["response"]["output"][0]["content"][0]["text"] == "par"
        await on.usable("a")
        assert end["type"] in ("error", "response.failed")
        kinds = [seen["type"] for seen in on.client.transcript]
        assert kinds.count(end["type"]) == 1


async def test_deltas_keep_every_character() -> None:
    text = '"\\\u0000\u001f\u2028 渐🙂é </script> \x7f'
    chunks = [created(), *opened(), delta(text), *closed(text), completed("r1", [message(text)])]
    async with stand() as on:
        _, response = await on.turn("a", chunks)
        deltas = [s["delta"] for s in on.client.transcript if s["type"].endswith("text.delta")]
        assert deltas == [text]
        assert response["output"][0]["content"][0]["text"] == text
        json.dumps(response)
