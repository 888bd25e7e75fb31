"""Upstream garbage that test_lies.py has no row for: numbers, characters, sizes, late events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.events import (
    completed,
    created,
    data,
    delta,
    event,
    failed,
    incomplete,
    item_added,
    message,
    opened,
    reply,
)
from tests.support.exchange import hung_up
from tests.support.gateway_stand import answer, stand

if TYPE_CHECKING:
    from tests.support.client import Event
    from tests.support.gateway_stand import Stand

TERMINALS = ("response.completed", "response.incomplete", "response.failed", "error")


async def _one_end(on: Stand, lane: str = "a") -> Event:
    """The lane's end; and after another turn there, that there was no second one."""
    end = (await on.client.until(*TERMINALS, lane=lane))[-1]
    before = len(on.client.lane(lane))
    await on.usable(lane)
    extra = on.client.lane(lane)[before:]
    assert extra[0]["type"] == "response.created"
    return end


async def test_invalid_utf8_within_a_good_event_harms_only_its_characters() -> None:
    bad = delta("X").replace(b"X", b"a\xffb")
    async with stand() as on:
        _, response = await on.turn("a", [created(), *opened(), bad, completed()])
        assert response["output"][0]["content"][0]["text"] == "a\ufffdb"


@pytest.mark.parametrize("number", ["-Infinity", "Infinity", "NaN", "1e999", "-1e999"])
async def test_b57_numbers_that_are_no_json_never_leave(number: str) -> None:
    logprob = b'[{"token":"a","logprob":%b,"top_logprobs":[]}]' % number.encode()
    line = delta("a").replace(b'"logprobs": []', b'"logprobs": ' + logprob)
    tail = completed("r1", [message("a")], x_odd="X").replace(b'"X"', number.encode())
    async with stand() as on:
        on.client.judge = None  # this test is about numbers; the client's parser is strict
        _, response = await on.turn("a", [created(), *opened(), line, tail])
        assert response["status"] == "completed"
        exchange, _ = await on.turn("a", previous_response_id=response["id"])
        assert b"Infinity" not in exchange.raw
        assert b"NaN" not in exchange.raw


async def test_b55_a_lone_surrogate_becomes_a_replacement() -> None:
    line = delta("X").replace(b'"X"', b'"\\ud83d"')
    async with stand() as on:
        _, response = await on.turn("a", [created(), *opened(), line, completed()])
        assert response["output"][0]["content"][0]["text"] == "\ufffd"


@pytest.mark.parametrize("line_end", [b"", b"\n"])
async def test_an_event_over_the_limit_ends_the_response_and_the_call(line_end: bytes) -> None:
    async with stand(max_event_bytes=65536) as on:
        exchange = await on.asked("a")
        await exchange.send(created(), *opened(), delta("par"))
        await on.client.until("response.output_text.delta", lane="a")
        await exchange.send(*[b"data: xxxxxxxx" * 1000 + line_end] * 8)
        end = await _one_end(on)
        assert end["response"]["status"] == "failed"
        await hung_up(exchange)


async def test_an_event_under_the_limit_passes_whole() -> None:
    text = "y" * 60_000
    async with stand(max_event_bytes=131072) as on:
        _, response = await on.turn("a", reply(text))
        assert response["output"][0]["content"][0]["text"] == text


AFTER = {
    "completed": completed(),
    "failed": failed(),
    "incomplete": incomplete(),
    "error": event("error", message="late"),
    "bare error": data({"error": {"message": "late"}}),
    "created": created("r2"),
    "delta": delta("late"),
    "item": item_added(message("late", "m2")),
    "garbage": b"data: {{{\n\n",
}


@pytest.mark.parametrize("first", ["completed", "failed", "incomplete"])
async def test_nothing_follows_a_terminal(first: str) -> None:
    async with stand() as on:
        for after in AFTER.values():
            exchange = await on.asked("a")
            await answer(exchange, [created(), AFTER[first] + after, after])
            end = await _one_end(on)
            assert end["type"] == f"response.{first}", after


async def test_a_reset_while_other_lanes_stream() -> None:
    async with stand() as on:
        lanes = {f"l{n}": await on.asked(f"l{n}") for n in range(4)}
        for exchange in lanes.values():
            await exchange.send(created(), *opened(), delta("a"))
        lanes["l0"].reset()
        assert (await _one_end(on, "l0"))["response"]["status"] == "failed"
        for lane in ("l1", "l2", "l3"):
            await answer(lanes[lane], [completed("r1", [message("a")])])
            assert (await on.client.ended(lane))["status"] == "completed"
