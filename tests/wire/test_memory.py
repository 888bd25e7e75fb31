"""What clients that do not read cost, measured from outside (B38)."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

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
)
from tests.support.hang_guard import HANG
from tests.support.raw_client import PING, frame, raw
from tests.support.serve_process import Process, process

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.exchange import Exchange
    from tests.support.raw_client import Raw

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

MIB = 1 << 20
#: For the allocator, the interpreter, and one read of each lane.
SLACK = 16 * MIB
LANES = 16


async def short_or_endless(exchange: Exchange) -> None:
    """Ends at once when asked by `short`, else goes on as long as it is read."""
    await exchange.send(created(), in_progress(), *opened())
    if exchange.body.get("user") == "short":
        await exchange.send(delta("ok"), *closed("ok"), completed(output=[message("ok")]))
        await exchange.end()
        return
    # Not one text: a response holds its own, whoever reads it.
    while True:
        await exchange.send(b": comment " + b"x" * 20_000 + b"\n\n", *endless())
        await anyio.lowlevel.checkpoint()


def endless() -> list[bytes]:
    return [data({"type": "response.vendor.note", "note": "x" * 20_000})]


async def test_a_reader_that_stops_costs_the_configured_bytes(tmp_path: Path) -> None:
    async with (
        process(tmp_path, "--send-buffer-bytes", "1MiB", script=short_or_endless) as own,
        connect(own.url) as client,
        raw(own.port, receive_buffer=1 << 17) as stuck,
    ):
        for lane in range(LANES):
            await client.create(str(lane), user="short")
            await client.ended(str(lane))
        before = own.resident
        for lane in range(LANES):
            await stuck.create(str(lane))
        while len(own.fake.exchanges) < 2 * LANES:  # noqa: ASYNC110
            await anyio.sleep(0.01)
        await anyio.sleep(1.5)
        most = own.peak - before
        assert most < MIB + SLACK, f"{most >> 20} MiB"
        await client.create("a", user="short")
        await client.ended("a")


@pytest.mark.parametrize("what", ["garbage", "pings", "creates"])
async def test_a_flood_without_reading_is_bounded(what: str, tmp_path: Path) -> None:
    """Tiny frames that are all there at once weigh most."""
    create = {"type": "response.create", "model": "m", "stream_id": "a", "generate": False}
    floods = {"garbage": frame("x"), "pings": frame(b"", PING), "creates": frame(create)}
    options = ("--send-buffer-bytes", "1MiB", "--max-queued-bytes", "1MiB")
    async with (
        process(tmp_path, *options) as own,
        connect(own.url) as other,
        raw(own.port, receive_buffer=1 << 17) as client,
    ):
        await other.send("x")
        await other.error()
        before = own.resident
        own.child.send_signal(signal.SIGSTOP)
        with anyio.move_on_after(0.5):
            while await written(client, floods[what] * 1000):
                pass
        own.child.send_signal(signal.SIGCONT)
        with anyio.move_on_after(0.5):
            while await written(client, floods[what] * 1000):
                pass
        await other.send("x")
        await other.error()
        most = own.peak - before
        assert most < 2 * MIB + SLACK, f"{most >> 20} MiB"


async def written(client: Raw, data: bytes) -> bool:
    """False once the gateway hung up."""
    try:
        await client.write(data)
    except ConnectionError:
        return False
    return True


@pytest.mark.timeout(600)
async def test_large_creates_of_closed_connections_are_given_back(tmp_path: Path) -> None:
    """Twelve creates of 60 MB, then 200 connections of which every hundredth sends one.

    Every other large one reaches the upstream. `bench/given_back.py` sends 200 large ones.
    """

    async def connection(own: Process, size: int, *, reaches: bool) -> None:
        async with connect(own.url, judged=False, ping_interval=None) as client:
            text = "x" * size
            await client.create("a", user="short", input=text, generate=reaches)
            await client.until("response.completed", lane="a")
        own.fake.exchanges.clear()

    async with process(tmp_path, "--redis-url", "memory", script=short_or_endless) as own:
        for number in range(10):
            await connection(own, 1000, reaches=number == 0)
        before = own.resident
        for number in range(12):
            await connection(own, 60_000_000, reaches=number % 2 == 0)
        await given_back(own, before + 40 * MIB)
        for number in range(200):
            large = number % 100 == 0
            await connection(own, 60_000_000 if large else 1000, reaches=large)
        await given_back(own, before + 40 * MIB)


async def given_back(own: Process, most: int) -> None:
    """Wait until a gateway has no more than this: it may not have seen the last client go yet."""
    with anyio.move_on_after(HANG):
        while own.resident >= most:  # noqa: ASYNC110 - seen from outside
            await anyio.sleep(0.05)
    assert own.resident < most, f"{(own.resident - most) >> 20} MiB too much"
