"""Whatever way a client leaves, its upstream calls end with it, quietly (B18, B51)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio.lowlevel
import pytest

from tests.support.client import Client, connect
from tests.support.events import created, delta, in_progress, opened, reply
from tests.support.exchange import hung_up
from tests.support.raw_client import CLOSE, raw, tcp
from tests.support.wire_stand import disconnected, standing, talking, unread

if TYPE_CHECKING:
    from tests.support.exchange import Exchange


async def babble(exchange: Exchange) -> None:
    """Deltas at full speed, for ever."""
    await exchange.send(created(), in_progress(), *opened())
    while True:
        await exchange.send(delta("word ") * 20)
        await anyio.lowlevel.checkpoint()


async def leave(client: Client, way: str) -> None:
    if way == "close":
        await client.socket.close()
    elif way == "abort":
        client.abort()
    else:
        client.socket.transport.write_eof()


@pytest.mark.parametrize("way", ["close", "abort", "half"])
async def test_all_upstream_calls_end_within_a_second(way: str) -> None:
    async with standing(max_active=4) as stand:
        async with connect(stand.url) as client:
            lanes = [(await stand.lane(client, name)).exchange for name in ("a", "b", None)]
            await client.create("silent")
            lanes.append(await stand.fake.next())
            for name in ("a", "c"):
                await client.create(name)
            await leave(client, way)
            await hung_up(*lanes)
        async with connect(stand.url) as client:
            await (await stand.lane(client, "a")).ends()
        assert len(stand.fake.exchanges) == 5
        await disconnected(stand)


@pytest.mark.parametrize("way", ["close", "abort"])
async def test_a_hundred_times_at_full_speed(way: str) -> None:
    rounds, lanes = 50, 8
    async with standing(babble) as stand:
        for n in range(rounds):
            async with connect(stand.url, judged=False, max_queue=None) as client:
                for lane in range(lanes):
                    await client.create(str(lane))
                await client.until("response.output_text.delta")
                if way == "abort":
                    client.abort()
            exchanges = stand.fake.exchanges
            assert len(exchanges) <= (n + 1) * lanes
            await hung_up(*exchanges)
            exchanges.clear()
        await disconnected(stand)


async def test_nothing_follows_the_close_frame() -> None:
    """Also when much is unsent by then, and more comes from the upstreams."""
    async with standing(babble) as stand:
        for _ in range(4):
            async with raw(stand.port, receive_buffer=1 << 17) as client:
                for lane in range(4):
                    await client.create(str(lane))
                await unread(stand, 100_000)
                await client.send(b"\x03\xe8bye", CLOSE)
                closing = await client.end()
                assert closing is not None
                assert closing.code == (1000, "bye")
            await hung_up(*stand.fake.exchanges)
            stand.fake.exchanges.clear()


async def test_a_reader_that_stopped_leaves_by_closing() -> None:
    """What is unsent must not keep anything alive."""
    async with standing(babble) as stand, raw(stand.port, receive_buffer=4096) as client:
        await client.create("a")
        await unread(stand, 100_000)
        await client.send(b"\x03\xe8", CLOSE)
        await hung_up(*stand.fake.exchanges)


@pytest.mark.parametrize("keys", [(), ("k",)], ids=["let in", "refused"])
async def test_leaving_before_being_let_in(keys: tuple[str, ...]) -> None:
    hello = (
        b"GET /v1/responses HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
    )
    async with standing(api_keys=keys) as stand:
        for after in (b"", b"\x88\x80abcd", b"\x88\x82abcdbj", b"\xff\xff", b"\x81\x81abcd1"):
            for abort in (True, False):
                for _ in range(5):
                    async with tcp(stand.port) as client:
                        await client.write(hello + after)
                        if abort:
                            client.abort()
        await disconnected(stand)


async def test_a_client_that_closes_gets_its_close_answered_while_lanes_are_busy() -> None:
    async with talking() as (stand, client):
        lane = await stand.lane(client, "a")
        await client.socket.close(4001, "enough")
        assert (await client.closed())[0] == 4001
        await hung_up(lane.exchange)


async def test_upstreams_are_reused_after_a_reader_left() -> None:
    async with standing(lambda _: reply("ok")) as stand:
        for _ in range(5):
            async with connect(stand.url) as client:
                await client.create("a")
                await client.ended("a")
        assert stand.fake.connections == 1
