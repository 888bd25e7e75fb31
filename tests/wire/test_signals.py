"""How signals end the process."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.support.client import connect
from tests.support.exchange import hung_up
from tests.support.serve_process import process
from tests.support.wire_stand import shape, started

if TYPE_CHECKING:
    from pathlib import Path

#: What ends before a test gives up has not waited for this.
LONG = ("--drain-timeout", "3600")
TERM, INT = signal.SIGTERM, signal.SIGINT


@pytest.mark.parametrize("sig", [TERM, INT])
async def test_nothing_to_wait_for(sig: signal.Signals, tmp_path: Path) -> None:
    async with process(tmp_path, *LONG) as own, connect(own.url) as client:
        own.child.send_signal(sig)
        assert await client.closed() == (1012, "service restart")
        await own.ends()


async def test_running_responses_finish_first(tmp_path: Path) -> None:
    async with process(tmp_path, "--max-active", "1", *LONG) as own, connect(own.url) as client:
        lane = await started(own.fake, client, "a")
        await client.create("b")
        own.child.send_signal(TERM)
        assert shape(await client.event())[3] == "b"
        await lane.says("in time")
        await lane.ends()
        assert await client.closed() == (1012, "service restart")
        await own.ends()


async def test_over_the_timeout_they_fail(tmp_path: Path) -> None:
    async with process(tmp_path, "--drain-timeout", "0.3") as own, connect(own.url) as client:
        lane = await started(own.fake, client, "a")
        own.child.send_signal(TERM)
        assert (await client.ended("a"))["status"] == "failed"
        assert await client.closed() == (1012, "service restart")
        await hung_up(lane.exchange)
        await own.ends()


@pytest.mark.parametrize(("first", "second"), [(TERM, TERM), (TERM, INT), (INT, INT)])
async def test_a_second_signal_ends_at_once(
    first: signal.Signals, second: signal.Signals, tmp_path: Path
) -> None:
    async with process(tmp_path, *LONG) as own, connect(own.url) as client:
        lane = await started(own.fake, client, "a")
        await client.create("a")
        own.child.send_signal(first)
        assert shape(await client.event())[3] == "a"
        own.child.send_signal(second)
        await hung_up(lane.exchange)
        assert (await client.closed())[0] == 1012
        said = (await own.ends()).splitlines()[-3:]
    assert said[0].endswith("draining 1 connection, 3600 s at most")
    assert said[1].endswith("not waiting for 1 connection")
    assert said[2].endswith("stopped at once")


async def test_how_it_ends_is_told(tmp_path: Path) -> None:
    async with process(tmp_path, *LONG) as own, connect(own.url), connect(own.url) as client:
        own.child.send_signal(TERM)
        assert await client.closed() == (1012, "service restart")
        said = (await own.ends()).splitlines()
    assert f"ws://127.0.0.1:{own.port}/v1/responses -> {own.fake.url}" in said[0]
    assert said[1].endswith("draining 2 connections, 3600 s at most")
    assert said[2].endswith("drained")
    assert said[3].endswith("stopped")
