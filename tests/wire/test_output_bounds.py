"""An answer without an end ends at its bound, and so does all that a connection has at a time."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

from tests.support.client import connect
from tests.support.events import created, delta, in_progress, opened
from tests.support.exchange import hung_up
from tests.support.raw_client import raw
from tests.support.serve_process import process
from tests.support.wire_stand import standing, talking

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.exchange import Exchange

LIMIT = 256 << 10
WORD = "x" * 4000
MIB = 1 << 20


async def endless(exchange: Exchange) -> None:
    """Answers as long as it is read, but for a create whose user is `short`."""
    await exchange.send(created(), in_progress(), *opened())
    if exchange.body.get("user") == "short":
        await exchange.send(delta("ok"))
        await exchange.end()
        return
    while True:
        await exchange.send(delta(WORD))
        await anyio.lowlevel.checkpoint()


async def test_it_ends_and_the_lane_goes_on() -> None:
    async with talking(endless, max_output_bytes=LIMIT) as (stand, client):
        await client.create("a")
        response = await client.ended("a")
        assert response["status"] == "incomplete"
        assert response["incomplete_details"] == {"reason": "max_output_bytes"}
        [exchange] = stand.fake.exchanges
        await hung_up(exchange)
        text = response["output"][0]["content"][0]["text"]
        assert LIMIT <= len(text) <= LIMIT + len(WORD)
        await client.create("a", previous_response_id=response["id"], user="short")
        await client.ended("a")
        assert stand.fake.exchanges[1].input[1]["content"][0]["text"] == text


async def test_what_one_response_took_the_next_may_have() -> None:
    async with talking(endless, max_running_output_bytes=LIMIT) as (_, client):
        for _ in range(3):
            await client.create("a")
            response = await client.ended("a")
            assert LIMIT <= len(response["output"][0]["content"][0]["text"]) <= LIMIT + len(WORD)


async def test_lanes_share_what_their_connection_may_have() -> None:
    async with (
        standing(endless, max_running_output_bytes=LIMIT, send_buffer_bytes=64 << 20) as stand,
        connect(stand.url) as client,
    ):
        for lane in "abcd":
            await client.create(lane)
        texts = [(await client.ended(lane))["output"][0]["content"][0]["text"] for lane in "abcd"]
        assert max(map(len, texts)) <= LIMIT + len(WORD)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.timeout(300)
async def test_slow_readers_of_endless_answers_cost_what_is_configured(tmp_path: Path) -> None:
    bounds = ("--max-output-bytes", "4MiB", "--max-running-output-bytes", "8MiB")
    async with (
        process(tmp_path, *bounds, "--redis-url", "memory", script=endless) as own,
        connect(own.url) as other,
        raw(own.port, receive_buffer=1 << 17) as slow,
    ):
        await other.create("a", user="short")
        await other.ended("a")
        before, ended = own.resident, 0
        for lane in range(4):
            await slow.create(str(lane))
        while ended < 4:
            found = await slow.frame(60)
            assert found is not None
            ended += b'"type":"response.incomplete"' in found.payload[:100]
        most = own.peak - before
        # The text itself, and the four events that repeat the whole of it at its end.
        assert most < 8 * 8 * MIB + 24 * MIB, f"{most // MIB} MiB"
