"""A client that reads slowly, or not at all, costs what is configured and nobody else (B38)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from tests.support.client import connect
from tests.support.events import closed, completed, created, delta, in_progress, message, opened
from tests.support.exchange import hung_up
from tests.support.hand_clock import hand_clock
from tests.support.hang_guard import HANG
from tests.support.judge import StreamJudge
from tests.support.raw_client import CLOSE, PING, TEXT, Raw, frame, raw
from tests.support.wire_stand import disconnected, sockets, standing, unread

if TYPE_CHECKING:
    from tests.support.exchange import Exchange
    from tests.support.wire_stand import WireStand

BOUND = 64 << 10
WORD = "渐word" * 2000


async def judged(client: Raw, lanes: int) -> dict[str, Any]:
    """Read until so many responses ended; every event is judged, nothing may be lost."""
    judge = StreamJudge()
    while sum(r.terminal is not None for r in judge.responses.values()) < lanes:
        found = await client.frame(15)
        assert found is not None
        if found.opcode == PING:
            continue
        judge.receive(json.loads(found.payload))
    judge.finish()
    return {response.lane or "": response.terminal for response in judge.responses.values()}


def long(count: int) -> Any:
    """A script: one answer of many deltas, as fast as it is read."""

    async def script(exchange: Exchange) -> None:
        await exchange.send(created(), in_progress(), *opened())
        for _ in range(count):
            await exchange.send(delta(WORD))
            await anyio.lowlevel.checkpoint()
        text = WORD * count
        await exchange.send(*closed(text), completed(output=[message(text)]))
        await exchange.end()

    return script


async def test_it_resumes_without_loss_when_it_reads_again() -> None:
    count, lanes = 500, 2
    async with (
        standing(long(count), send_buffer_bytes=BOUND) as stand,
        raw(stand.port, receive_buffer=1 << 17) as client,
    ):
        for lane in range(lanes):
            await client.create(str(lane))
        await unread(stand, BOUND)
        [socket] = sockets(stand)
        most = 0
        for _ in range(200):
            await anyio.lowlevel.checkpoint()
            most = max(most, socket.unsent)
        # One read of each lane may come before its upstream stands still.
        assert most < BOUND + lanes * (300 << 10)
        assert not any(exchange.ended for exchange in stand.fake.exchanges)
        ended = await judged(client, lanes)
        assert len(ended) == lanes
        for response in ended.values():
            assert response["status"] == "completed"
            assert response["output"][0]["content"][0]["text"] == WORD * count


async def test_other_connections_do_not_feel_it() -> None:
    async with (
        standing(send_buffer_bytes=BOUND) as stand,
        raw(stand.port, receive_buffer=1 << 17) as stuck,
        connect(stand.url) as client,
    ):
        await stuck.create("a")
        flood = await stand.fake.next()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(babble, flood)
            await unread(stand, BOUND)
            lane = await stand.lane(client, "a")
            for n in range(50):
                await lane.says(f"{n} ")
            await lane.ends()
            tasks.cancel_scope.cancel()


async def babble(exchange: Exchange) -> None:
    await exchange.send(created(), in_progress(), *opened())
    while True:
        await exchange.send(delta(WORD))
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("stall_timeout", [10.0, 200.0])
async def test_no_progress_closes_with_1013(stall_timeout: float) -> None:
    """Also where pings are quicker: who reads nothing cannot see them."""
    async with (
        standing(long(500), send_buffer_bytes=BOUND, stall_timeout=stall_timeout) as stand,
        raw(stand.port, receive_buffer=1 << 17) as client,
    ):
        [socket] = sockets(stand)
        clock = hand_clock(socket)
        await client.create("a")
        await client.create("b")
        await full(stand)
        while not socket.close_sent:
            clock.elapse(1)
        assert clock.time() >= stall_timeout
        assert len(stand.fake.exchanges) == 2
        await hung_up(*stand.fake.exchanges)
        closing = (await client.until(CLOSE))[-1]
        assert closing.code == (1013, "slow_consumer")
        await client.send(closing.payload, CLOSE)
        assert await client.end() == closing


async def full(stand: WireStand) -> None:
    """Wait until a client's socket takes no more, and all that was asked for has begun."""
    [socket] = sockets(stand)
    with anyio.fail_after(HANG):
        while socket.writable.is_set():  # noqa: ASYNC110 - there is no event for it
            await anyio.sleep(0.001)


async def test_a_reader_that_never_comes_back_is_torn_down() -> None:
    async with standing(long(500), send_buffer_bytes=BOUND, stall_timeout=0.2) as stand:
        async with raw(stand.port, receive_buffer=1 << 17) as client:
            await client.create("a")
            await unread(stand, BOUND)
            [socket] = sockets(stand)
            socket.close_timeout = 0.2
            await disconnected(stand)
        await hung_up(*stand.fake.exchanges)


async def test_slow_is_not_stalled() -> None:
    """Whoever reads on is not closed, however long it takes."""
    limits = {"send_buffer_bytes": BOUND, "stall_timeout": 60, "ping_interval": 3600}
    rounds = 0
    async with (
        standing(long(400), **limits) as stand,
        raw(stand.port, receive_buffer=1 << 17) as client,
    ):
        [socket] = sockets(stand)
        clock = hand_clock(socket)
        await client.create("a")
        await full(stand)
        payload = b""
        while b'"response.completed"' not in payload:
            for _ in range(20):
                frame = await client.frame()
                assert frame is not None
                assert frame.opcode == TEXT
                payload = frame.payload
                if b'"response.completed"' in payload:
                    break
            clock.elapse(50)
            rounds += 1
        assert rounds > 10


async def test_garbage_without_reading_is_bounded() -> None:
    """Answers alone fill the buffer: each costs more than what asked for it."""
    async with (
        standing(send_buffer_bytes=BOUND) as stand,
        raw(stand.port, receive_buffer=1 << 17) as client,
    ):
        [socket] = sockets(stand)
        socket.close_timeout = 0.3
        most = await flood(client, frame("x") * 500, socket)
        assert most < 4 * BOUND
        await disconnected(stand)


async def test_pings_without_reading_are_bounded() -> None:
    async with (
        standing(send_buffer_bytes=BOUND, stall_timeout=0.3) as stand,
        raw(stand.port, receive_buffer=1 << 17) as client,
    ):
        [socket] = sockets(stand)
        socket.close_timeout = 0.3
        most = await flood(client, frame(b"x" * 125, PING) * 500, socket)
        assert most < 4 * BOUND
        await disconnected(stand)


async def flood(client: Raw, data: bytes, socket: Any) -> int:
    """Write until the gateway hangs up; the most that was unsent meanwhile."""
    most = 0
    with anyio.fail_after(HANG):
        while True:
            try:
                await client.write(data)
            except ConnectionError:
                return most
            await anyio.lowlevel.checkpoint()
            if socket.disconnected:
                return most
            most = max(most, socket.unsent)


async def test_pings_are_answered_again_once_it_reads() -> None:
    async with (
        standing(send_buffer_bytes=BOUND) as stand,
        raw(stand.port, receive_buffer=1 << 17) as client,
    ):
        [socket] = sockets(stand)
        sent = 0
        while socket.unsent < BOUND:
            for _ in range(100):
                sent += 1
                await client.write(frame(b"%0125d" % sent, PING))
        last = b"%0125d" % sent
        while (found := await client.frame()) is None or found.payload != last:
            pass
        await client.send(b"x")
        assert (await client.until(TEXT))[-1].event["error"]["code"] == "invalid_json"
