"""Pings find who is gone, spare who is busy, and fit between the frames (B38, B50)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from gateway.client.paced_writer import unacknowledged
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
from tests.support.hand_clock import hand_clock
from tests.support.hang_guard import HANG
from tests.support.judge import StreamJudge
from tests.support.raw_client import CLOSE, PING, PONG, TEXT, frame, raw
from tests.support.wire_stand import disconnected, sockets, standing

if TYPE_CHECKING:
    from gateway.client.socket import ClientSocket
    from tests.support.exchange import Exchange
    from tests.support.hand_clock import HandClock
    from tests.support.raw_client import Raw

PERIOD = 20.0
SLOW: dict[str, Any] = {"ping_interval": PERIOD, "ping_timeout": PERIOD}
FAST: dict[str, Any] = {"ping_interval": 0.5, "ping_timeout": 0.5}


async def drip(exchange: Exchange) -> None:
    """A delta now and then, for ever."""
    await exchange.send(created(), in_progress(), *opened())
    while True:
        await exchange.send(delta("x"))
        await anyio.sleep(0.02)


async def pinged(clock: HandClock, client: Raw) -> bytes:
    """Let the time for a ping pass; its payload, once the client has read up to it."""
    clock.elapse(PERIOD)
    return (await client.until(PING))[-1].payload


async def heard(client: Raw) -> None:
    """Wait until the gateway has read all that was sent."""
    await client.send("x")
    while True:
        event = (await client.until(TEXT))[-1].event
        if event["type"] == "error":
            assert event["error"]["code"] == "invalid_json"
            return


async def test_a_silent_peer_is_closed_and_its_upstreams_with_it() -> None:
    async with standing(**SLOW) as stand, raw(stand.port) as client:
        [socket] = sockets(stand)
        clock = hand_clock(socket)
        await client.create("a")
        exchange = await stand.fake.next()
        await exchange.head()
        await pinged(clock, client)
        clock.elapse(0.9 * PERIOD)
        assert not socket.close_sent
        clock.elapse(0.1 * PERIOD)
        await hung_up(exchange)
        closing = await client.end()
        assert closing is not None
        assert closing.code == (1011, "keepalive ping timeout")


async def test_one_that_answers_stays() -> None:
    async with standing(**SLOW) as stand, raw(stand.port) as client:
        [socket] = sockets(stand)
        clock = hand_clock(socket)
        for _ in range(5):
            await client.send(await pinged(clock, client), PONG)
            await heard(client)
        assert clock.time() == 5 * PERIOD


async def test_a_busy_peer_that_withholds_its_pongs_stays() -> None:
    async with standing(**SLOW) as stand, raw(stand.port) as client:
        [socket] = sockets(stand)
        clock = hand_clock(socket)
        await client.create("a")
        exchange = await stand.fake.next()
        await exchange.send(created(), in_progress(), *opened())
        for _ in range(5):
            await pinged(clock, client)
            await exchange.send(delta("x"))
            while b"output_text.delta" not in (await client.until(TEXT))[-1].payload:
                pass
            await acknowledged(socket)
            clock.elapse(PERIOD)
            assert not socket.close_sent
        await client.send(b"", CLOSE)
        assert await client.end() == (CLOSE, b"")


async def acknowledged(socket: ClientSocket) -> None:
    """Wait until the client's kernel has confirmed all that was sent to it."""
    with anyio.fail_after(HANG):
        while unacknowledged(socket.transport):  # noqa: ASYNC110 - there is no event for it
            await anyio.sleep(0.001)


async def test_a_peer_that_only_sends_stays() -> None:
    async with standing(**SLOW) as stand, raw(stand.port) as client:
        [socket] = sockets(stand)
        clock = hand_clock(socket)
        half, rest = (whole := frame("x"))[:3], whole[3:]  # of one mask
        await client.write(half)
        for _ in range(5):
            await pinged(clock, client)
            clock.elapse(0.5 * PERIOD)
            # Half a frame at a time: bytes are all that counts.
            await client.write(rest + half)
            error = (await client.until(TEXT))[-1].event["error"]
            assert error["code"]
            clock.elapse(0.5 * PERIOD)
            assert not socket.close_sent


async def test_a_dead_peer_is_found_while_deltas_flow_to_it() -> None:
    """The kernel takes megabytes for a peer that is gone; that is no sign of life."""
    async with standing(drip, **FAST) as stand, raw(stand.port, receive_buffer=1) as client:
        await client.create("a", x="x" * 1000)
        await disconnected(stand)
        assert len(stand.fake.exchanges) == 1
        await hung_up(*stand.fake.exchanges)


async def test_comments_keep_the_upstream_and_are_not_relayed() -> None:
    async with (
        standing(idle_timeout=1.0, ping_interval=0.1, ping_timeout=HANG) as stand,
        connect(stand.url) as client,
    ):
        await client.create("a")
        exchange = await stand.fake.next()
        await exchange.send(created())
        for _ in range(12):
            await anyio.sleep(0.1)
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
        standing(script, ping_interval=0.002, ping_timeout=HANG) as stand,
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
