"""Upstream garbage: one well-formed end each, the lane usable at once, other lanes unharmed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cases.stand import answer, hung_up, stand
from tests.fakes.events import (
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

if TYPE_CHECKING:
    from tests.cases.stand import Stand
    from tests.fakes.client import Event

TERMINALS = ("response.completed", "response.incomplete", "response.failed", "error")


async def _one_end(on: Stand, lane: str = "a") -> Event:
    """The lane's end; and after another turn there, that there was no second one."""
    end = (await on.client.until(*TERMINALS, lane=lane))[-1]
    before = len(on.client.lane(lane))
    await on.usable(lane)
    extra = on.client.lane(lane)[before:]
    assert extra[0]["type"] == "response.created"
    return end


#: What comes instead of a proper stream -> how it ends when nothing, and when something, had begun.
GARBAGE: dict[str, bytes] = {
    "cut json": b'data: {"type":"response.output_text.delta","item_id":"m1","del\\n\\n'.replace(
        b"\\n", b"\n"
    ),
    "not json": b"data: <html>\n\n",
    "empty data": b"data:\n\n",
    "scalar": data("5"),
    "array": data('[{"type":"response.completed"}]'),
    "string": data('"response.completed"'),
    "null": data("null"),
    "true": data("true"),
    "done only": data("[DONE]"),
    "invalid utf-8": b'data: {"type":"response.output_text.delta","delta":"\xff\xfe\n\n',
    "deep": data("[" * 100_000),
    "digits": data('{"type":' + "9" * 5000 + "}"),
    "html lines": b"<!doctype html>\n<p>502 Bad Gateway</p>\n\n",
    "binary": bytes(range(256)) * 4,
}


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("kind", GARBAGE)
async def test_garbage_ends_the_response_once(kind: str, begun: bool) -> None:
    async with stand() as on:
        other = await on.asked("b")
        await other.send(created(), *opened(), delta("un"))
        exchange = await on.asked("a")
        head = [created(), *opened(), delta("par")] if begun else []
        await answer(exchange, [*head, GARBAGE[kind]])
        end = await _one_end(on)
        if begun:
            assert end["type"] == "response.failed"
            assert end["response"]["output"][0]["content"][0]["text"] == "par"
        else:
            assert (end["type"], end["status"]) == ("error", 502)
        await answer(other, [delta("harmed"), completed("r1", [message("unharmed")])])
        ended = await on.client.ended("b")
        assert ended["output"][0]["content"][0]["text"] == "unharmed"


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


async def test_created_twice_is_sent_once() -> None:
    async with stand() as on:
        _, response = await on.turn("a", [created(), created("r2"), *opened(), completed("r3")])
        kinds = [seen["type"] for seen in on.client.transcript]
        assert kinds.count("response.created") == kinds.count("response.in_progress") == 1
        assert response["status"] == "completed"


async def test_a_terminal_alone_is_a_whole_response() -> None:
    async with stand() as on:
        _, response = await on.turn("a", [completed("r1", [message("all at once")])])
        assert response["output"][0]["content"][0]["text"] == "all at once"
        kinds = [seen["type"] for seen in on.client.transcript]
        assert kinds[:2] == ["response.created", "response.in_progress"]


@pytest.mark.parametrize("body", [b"", b"\n\n\n", b"event: response.completed\n\n"])
async def test_events_without_data_are_none(body: bytes) -> None:
    async with stand() as on:
        exchange = await on.asked("a")
        await answer(exchange, [body])
        assert (await _one_end(on))["status"] == 502


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
