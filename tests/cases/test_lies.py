"""Backends lie: each lie has one well-formed end, and harms neither its lane nor another."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.lies.ends import seen
from tests.lies.events import INDICES, ORDER, TYPES
from tests.lies.garbage import ANSWERS, ERRORS, GARBAGE, MEANT, WIRE
from tests.lies.values import ENDS, UNKNOWN, USAGES, VALUES
from tests.support.events import completed, created, delta, message, opened
from tests.support.gateway_stand import answer, stand

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.gateway_stand import Stand

TERMINALS = ("response.completed", "response.incomplete", "response.failed", "error")
BODIES = {
    "order": ORDER,
    "indices": INDICES,
    "types": TYPES,
    "values": VALUES,
    "usages": USAGES,
    "ends": ENDS,
    "unknown": UNKNOWN,
}


@asynccontextmanager
async def neighboured() -> AsyncIterator[Stand]:
    """A stand on whose lane `b` a response runs all the while, and ends as if nothing had been."""
    async with stand() as on:
        other = await on.asked("b")
        await other.send(created(), *opened(), delta("un"))
        await on.client.until("response.output_text.delta", lane="b")
        yield on
        await answer(other, [delta("harmed"), completed("r1", [message("unharmed")])])
        ended = await on.client.ended("b")
        assert ended["output"][0]["content"][0]["text"] == "unharmed"


async def end(on: Stand) -> str:
    """The end of lane `a`; and after another turn there, that there was no second one."""
    last = (await on.client.until(*TERMINALS, lane="a"))[-1]
    before = len(on.client.lane("a"))
    await on.usable("a")
    assert on.client.lane("a")[before]["type"] == "response.created"
    return seen(last)


@pytest.mark.parametrize("table", BODIES)
async def test_a_body_of_odd_events(table: str) -> None:
    async with neighboured() as on:
        if table == "unknown":
            on.client.judge = None  # the official types know nothing of it
        for name, (body, wanted) in BODIES[table].items():
            exchange = await on.asked("a")
            await answer(exchange, [b"".join(body)])
            last = (await on.client.until(*TERMINALS, lane="a"))[-1]
            assert seen(last) == wanted, name
        await on.usable("a")


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("kind", GARBAGE)
async def test_garbage(kind: str, begun: bool) -> None:
    async with neighboured() as on:
        exchange = await on.asked("a")
        head = [created(), *opened(), delta("par")] if begun else []
        await answer(exchange, [*head, GARBAGE[kind]])
        wanted = "failed server_error: message par" if begun else "error 502 server_error"
        assert await end(on) == wanted


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("kind", MEANT)
async def test_an_end_in_another_form(kind: str, begun: bool) -> None:
    told, alone, after = MEANT[kind]
    async with neighboured() as on:
        exchange = await on.asked("a")
        head = [created(), *opened(), delta("par")] if begun else []
        await answer(exchange, [*head, told])
        assert await end(on) == (after if begun else alone)


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("kind", ERRORS)
async def test_an_error_in_the_stream(kind: str, begun: bool) -> None:
    told, error, code = ERRORS[kind]
    async with neighboured() as on:
        exchange = await on.asked("a")
        head = [created(), *opened(), delta("par")] if begun else []
        await answer(exchange, [*head, told])
        assert await end(on) == (f"failed {code}: message par" if begun else f"error {error}")


@pytest.mark.parametrize("kind", ANSWERS)
async def test_an_answer_that_is_no_stream(kind: str) -> None:
    status, headers, body, wanted = ANSWERS[kind]
    async with neighboured() as on:
        exchange = await on.asked("a")
        await exchange.reply(status, body, headers)
        assert await end(on) == f"error {wanted}"


@pytest.mark.parametrize("kind", WIRE)
async def test_an_answer_that_breaks_http(kind: str) -> None:
    play, wanted = WIRE[kind]
    async with neighboured() as on:
        exchange = await on.asked("a")
        await play(exchange)
        assert await end(on) == wanted


LIMIT = 8 * 2**20


def sized(where: str, size: int) -> list[bytes]:
    """A body one event of which has so many bytes, in a delta or in a text that came at once."""
    if where == "a delta":
        rest = len(delta("").strip())
        return [created(), *opened(), delta("x" * (size - rest)), completed()]
    rest = len(completed("r1", [message("x")]).strip()) - 1
    return [created(), completed("r1", [message("x" * (size - rest))])]


@pytest.mark.parametrize("where", ["a delta", "a final text"])
async def test_an_event_of_eight_mebibytes(where: str) -> None:
    async with neighboured() as on:
        exchange = await on.asked("a")
        await answer(exchange, sized(where, LIMIT))
        response = await on.client.ended("a")
        text = response["output"][0]["content"][0]["text"]
        assert response["status"] == "completed"
        assert LIMIT - 1000 < len(text) == text.count("x") < LIMIT
        exchange = await on.asked("a")
        await answer(exchange, sized(where, LIMIT + 1))
        assert (await end(on)).startswith("failed server_error")
