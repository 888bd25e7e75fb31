"""The gateway stops: what runs may finish, what waits is told so, then 1012."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest
from websockets.exceptions import InvalidStatus

from tests.support.client import connect
from tests.support.exchange import hung_up
from tests.support.hang_guard import HANG
from tests.support.raw_client import CLOSE, PING, TEXT, Raw, raw
from tests.support.wire_stand import shape, standing, talking, unread
from tests.wire.test_slow_reader import long

if TYPE_CHECKING:
    from tests.support.wire_stand import WireStand

RESTART = (1012, "service restart")
STOPPING = ("server_shutting_down", 503, None)


async def stop(stand: WireStand) -> None:
    """As a signal does; returns once the gateway drains."""
    stand.server.should_exit = True
    with anyio.fail_after(HANG):
        while not stand.server.gateway.census.draining:  # noqa: ASYNC110 - uvicorn polls its flag
            await anyio.sleep(0.005)


async def test_an_idle_connection_is_closed_at_once() -> None:
    async with talking() as (stand, client):
        await stop(stand)
        assert await client.closed() == RESTART
        assert client.transcript == []


async def test_running_ones_finish_and_waiting_ones_are_told() -> None:
    async with talking(max_active=2) as (stand, client):
        a, default = await stand.lane(client, "a"), await stand.lane(client)
        for name in ("a", "b", None):
            await client.create(name)
        await stop(stand)
        for name in ("a", "b", None):
            assert shape(await client.event()) == (*STOPPING, name)
        await client.create("c")
        event = await client.event()
        assert shape(event) == (*STOPPING, "c")
        assert event["error"]["type"] == "server_error"
        await a.says("in time")
        await a.ends()
        with pytest.raises(InvalidStatus) as refused:
            async with connect(stand.url):
                pass
        assert refused.value.response.status_code == 503
        assert int(refused.value.response.headers["Retry-After"]) > 0
        assert b"server_shutting_down" in (refused.value.response.body or b"")
        await default.ends()
        assert await client.closed() == RESTART
        assert len(stand.fake.exchanges) == 2


async def test_what_outlasts_the_timeout_fails() -> None:
    async with talking(drain_timeout=0.2) as (stand, client):
        a = await stand.lane(client, "a")
        await a.says("part")
        await client.create("silent")
        silent = await stand.fake.next()
        await stop(stand)
        response = await client.ended("a")
        assert response["status"] == "failed"
        assert response["output"][0]["content"][0]["text"] == "part"
        assert shape(await client.error("silent")) == (*STOPPING, "silent")
        assert await client.closed() == RESTART
        await hung_up(a.exchange, silent)


async def test_no_time_at_all() -> None:
    async with talking(drain_timeout=0) as (stand, client):
        await stand.lane(client, "a")
        await stop(stand)
        assert (await client.ended("a"))["status"] == "failed"
        assert await client.closed() == RESTART


async def test_many_connections_end_each_when_it_is_done() -> None:
    async with talking() as (stand, late), connect(stand.url) as early:
        last, first = await stand.lane(late, "a"), await stand.lane(early, "a")
        await stop(stand)
        await first.ends()
        assert await early.closed() == RESTART
        await last.says("still here")
        await last.ends()
        assert await late.closed() == RESTART


async def test_who_reads_slowly_loses_nothing() -> None:
    """What was written before the close frame goes out, and the close frame, too."""
    async with (
        standing(long(100), max_event_bytes=16 << 20) as stand,
        raw(stand.port, receive_buffer=1 << 16) as client,
    ):
        await client.create("a")
        await unread(stand, 1 << 20)
        with anyio.fail_after(HANG):
            while not stand.fake.exchanges[0].ended:  # noqa: ASYNC110
                await anyio.sleep(0.005)
        await stop(stand)
        await anyio.sleep(0.4)  # uvicorn has begun to close what is left
        frames = await client.until(CLOSE)
        assert frames[-2].event["type"] == "response.completed"
        assert frames[-1].code == RESTART
        await client.send(frames[-1].payload, CLOSE)
        assert await client.end() == frames[-1]


async def test_who_keeps_sending_sees_the_close_frame() -> None:
    """Were the connection closed on it, a reset would take what it has not read yet."""
    async with standing() as stand, raw(stand.port) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(chatter, client)
            await client.until(TEXT)
            await stop(stand)
            await anyio.sleep(0.4)  # uvicorn has begun to close what is left
            seen = await client.until(CLOSE)
            assert seen[-1].code == RESTART
            tasks.cancel_scope.cancel()
        await client.send(seen[-1].payload, CLOSE)
        assert await client.end() == seen[-1]


async def chatter(client: Raw) -> None:
    while True:
        await client.send(b"x" * 10_000)
        await client.send(b"", PING)
        await anyio.sleep(0.001)
