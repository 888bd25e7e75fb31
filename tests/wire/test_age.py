"""The age limit, with small numbers (B54)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from tests.support.client import connect
from tests.support.events import created
from tests.support.exchange import hung_up
from tests.support.hang_guard import HANG
from tests.support.serve_process import process
from tests.support.wire_stand import shape, standing, started, talking

if TYPE_CHECKING:
    from pathlib import Path

LIMIT = "websocket_connection_limit_reached"


async def test_an_idle_connection_gets_the_error_and_a_clean_close() -> None:
    async with talking(max_age=0.2) as (_, client):
        event = await client.event()
        assert shape(event) == (LIMIT, 400, None, None)
        assert event["error"]["type"] == "invalid_request_error"
        assert await client.closed() == (1000, "age limit")
        assert len(client.transcript) == 1


async def test_it_ends_in_a_process_of_its_own(tmp_path: Path) -> None:
    """Not only where the test's own task has set the event loop's context up."""
    options = ("--max-age", "1.0", "--age-grace", "0.2")
    async with process(tmp_path, *options) as own, connect(own.url) as client:
        await started(own.fake, client, "a")
        assert (await client.ended("a"))["status"] == "failed"
        assert shape(await client.event()) == (LIMIT, 400, None, None)
        assert await client.closed() == (1000, "age limit")


async def test_running_responses_finish_within_the_grace_and_nothing_starts() -> None:
    async with talking(max_age=1.0, age_grace=10, max_active=2) as (stand, client):
        a, default = await stand.lane(client, "a"), await stand.lane(client)
        for name in ("a", "b", None):
            await client.create(name)
        for name in ("a", "b", None):
            assert shape(await client.event()) == (LIMIT, 400, None, name)
        await client.create("c")
        assert shape(await client.event()) == (LIMIT, 400, None, "c")
        await client.send("garbage")
        assert shape(await client.event())[0] == "invalid_json"
        await a.says("in time")
        await a.ends()
        await default.ends()
        assert shape(await client.event()) == (LIMIT, 400, None, None)
        assert await client.closed() == (1000, "age limit")
        assert len(stand.fake.exchanges) == 2


async def test_what_outlasts_the_grace_fails() -> None:
    async with talking(max_age=1.0, age_grace=0.2) as (stand, client):
        a = await stand.lane(client, "a")
        await a.says("part")
        await client.create("silent")
        silent = await stand.fake.next()
        await client.create("headed")
        headed = await stand.fake.next()
        await headed.head()
        response = await client.ended("a")
        assert response["status"] == "failed"
        assert response["error"]["code"] == "server_error"
        assert LIMIT in response["error"]["message"]
        assert response["output"][0]["content"][0]["text"] == "part"
        errors = [shape(await client.error(lane)) for lane in ("silent", "headed", None)]
        assert errors == [(LIMIT, 400, None, lane) for lane in ("silent", "headed", None)]
        assert await client.closed() == (1000, "age limit")
        await hung_up(a.exchange, silent, headed)
        assert [event["type"] for event in client.transcript].count("error") == 3
        assert "stream_id" not in client.transcript[-1]


@pytest.mark.parametrize("grace", [0, 0.1])
async def test_one_connection_ages_another_does_not(grace: float) -> None:
    async with standing(max_age=1.0, age_grace=grace) as stand, connect(stand.url) as old:
        lane = await stand.lane(old, "a")
        with anyio.fail_after(HANG):
            await lane.exchange.closed.wait()
        async with connect(stand.url) as young:
            await (await stand.lane(young, "a")).ends()
        assert (await old.closed())[0] == 1000


async def test_a_create_on_its_way_when_the_time_is_over() -> None:
    async with talking(max_age=1.0, age_grace=0) as (stand, client):
        await client.create("a")
        exchange = await stand.fake.next()
        await exchange.send(created())
        await client.until("response.in_progress", lane="a")
        assert (await client.ended("a"))["status"] == "failed"
        assert shape(await client.event()) == (LIMIT, 400, None, None)
        assert (await client.closed())[0] == 1000
