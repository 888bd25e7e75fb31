"""What a converter keeps of an answer until it can send it counts as output (protocol.md 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio.lowlevel
import pytest

from tests.support.events import data
from tests.support.exchange import hung_up
from tests.support.wire_stand import talking

if TYPE_CHECKING:
    from tests.support.exchange import Exchange

LIMIT = 64 << 10
PIECE = "x" * 4000


@pytest.mark.parametrize(
    ("first", "more"),
    [
        ({"id": "c", "function": {"name": "patch", "arguments": '{"input": "'}}, {"index": 0}),
        ({"id": "c", "function": {"arguments": "{"}}, {"index": 0}),
        ({"function": {}}, {"id": PIECE}),
    ],
    ids=["the input of a custom tool", "a call without a name", "calls without a name"],
)
async def test_it_ends_at_the_bound(first: dict[str, Any], more: dict[str, Any]) -> None:
    async def endless(exchange: Exchange) -> None:
        entry = {"index": 0, **first}
        number = 0
        while True:
            delta = {"content": None, "tool_calls": [entry]}
            await exchange.send(data({"choices": [{"index": 0, "delta": delta}]}))
            number += 1
            entry = {"index": number, **more}
            entry["function"] = {"arguments": PIECE}
            await anyio.lowlevel.checkpoint()

    async with talking(endless, dialect="chat", max_output_bytes=LIMIT) as (stand, client):
        await client.create("a", tools=[{"type": "custom", "name": "patch"}])
        response = await client.ended("a")
        assert response["incomplete_details"] == {"reason": "max_output_bytes"}
        await hung_up(stand.fake.exchanges[0])
