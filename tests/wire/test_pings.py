"""Pings find who is gone, spare who is busy, and fit between the frames (B38, B50)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from tests.support.client import connect
from tests.support.events import (
    closed,
    completed,
    created,
    data,
    delta,
    in_progress,
    message,
    opened,
    reply,
)
from tests.support.exchange import hung_up
from tests.support.judge import StreamJudge
from tests.support.raw_client import CLOSE, PING, PONG, TEXT, frame, raw
from tests.support.wire_stand import disconnected, standing

if TYPE_CHECKING:
    from tests.support.exchange import Exchange

FAST: dict[str, Any] = {"ping_interval": 0.1, "ping_timeout": 0.1}


async def drip(exchange: Exchange) -> None:
    """A delta now and then, for ever."""
    await exchange.send(created(), in_progress(), *opened())
    while True:
        await exchange.send(delta("x"))
        await anyio.sleep(0.02)


async def test_a_silent_peer_is_closed_and_its_upstreams_with_it() -> None:
    async with standing(**FAST) as stand, raw(stand.port) as client:
        await client.create("a")
        exchange = await stand.fake.next()
        await exchange.head()
        found = await client.frame()
        assert found is not None
        assert found.opcode == PING
        await hung_up(exchange, within=1)
        closing = await client.end()
        assert closing is not None
        assert closing.code == (1011, "keepalive ping timeout")


async def test_one_that_answers_stays() -> None:
    async with standing(**FAST) as stand, raw(stand.port) as client:
        for _ in range(5):
            found = await client.frame()
            assert found is not None
            assert found.opcode == PING
            await client.send(found.payload, PONG)
        await client.send("x")
        assert (await client.until(TEXT))[-1].event["error"]["code"] == "invalid_json"


async def test_a_busy_peer_that_withholds_its_pongs_stays() -> None:
    async with standing(drip, **FAST) as stand, raw(stand.port) as client:
        await client.create("a")
        pings = 0
        while pings < 5:
            found = await client.frame()
            assert found is not None
            assert found.opcode != CLOSE
            pings += found.opcode == PING
        await client.send(b"", CLOSE)
        assert await client.end() == (CLOSE, b"")


async def test_a_peer_that_only_sends_stays() -> None:
    async with standing(**FAST) as stand, raw(stand.port) as client:
        until = anyio.current_time() + 0.8
        while anyio.current_time() < until:
            # Half a frame at a time: bytes are all that counts.
            await client.write(frame("x")[:3])
            await anyio.sleep(0.03)
            await client.write(frame("x")[3:])
            found = (await client.until(TEXT))[-1]
            assert found.event["error"]["code"]


async def test_a_dead_peer_is_found_while_deltas_flow_to_it() -> None:
    """The kernel takes megabytes for a peer that is gone; that is no sign of life."""
    async with standing(drip, **FAST) as stand, raw(stand.port, receive_buffer=1) as client:
        await client.create("a", x="x" * 1000)
        with anyio.fail_after(10):
            await disconnected(stand, within=9)
        await hung_up(*stand.fake.exchanges)


async def test_comments_keep_the_upstream_and_are_not_relayed() -> None:
    async with (
        standing(idle_timeout=0.3, ping_interval=0.1, ping_timeout=5) as stand,
        connect(stand.url) as client,
    ):
        await client.create("a")
        exchange = await stand.fake.next()
        await exchange.send(created())
        for _ in range(12):
            await anyio.sleep(0.05)
            await exchange.send(b": ping\n\n", data("[]").replace(b"data: []", b"event: ping"))
        await exchange.send(*reply("ok")[1:])
        await client.ended("a")
        kinds = {event["type"] for event in client.transcript}
        assert all(kind.startswith("response.") for kind in kinds)


async def test_control_frames_between_events_break_nothing() -> None:
    count, lanes = 300, 3

    async def script(exchange: Exchange) -> None:
        await exchange.send(created(), in_progress(), *opened())
        for n in range(count):
            await exchange.send(delta(f"{n} " * (1 + n % 90)))
            if n % 10 == 0:
                await anyio.sleep(0.001)
        text = "".join(f"{n} " * (1 + n % 90) for n in range(count))
        await exchange.send(*closed(text), completed(output=[message(text)]))
        await exchange.end()

    async with (
        standing(script, ping_interval=0.002, ping_timeout=5) as stand,
        raw(stand.port) as client,
    ):
        for lane in range(lanes):
            await client.create(str(lane))
        judge = StreamJudge()
        sent = pings = 0
        pongs: list[bytes] = []
        while sum(r.terminal is not None for r in judge.responses.values()) < lanes:
            found = await client.frame()
            assert found is not None
            if found.opcode == PING:
                pings += 1
                await client.send(found.payload, PONG)
                await client.send(b"%d" % sent, PING)
                sent += 1
            elif found.opcode == PONG:
                pongs.append(found.payload)
            else:
                judge.receive(json.loads(found.payload))
        judge.finish()
        assert pings > 5
        assert pongs == [b"%d" % n for n in range(len(pongs))]
        await client.send(b"\x03\xe8", CLOSE)
        closing = await client.end()
        assert closing is not None
        assert closing.code == (1000, "")
