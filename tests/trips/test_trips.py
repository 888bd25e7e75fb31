"""How many files a create, a steer and a text delta pass through; the numbers must not grow.

The gateway runs in this process, over HTTP to a scripted upstream of a set dialect, with the
stores in memory. Everything was used once before it is recorded, so that lazy imports, the
connection to the upstream and the dialect are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from anyio import create_task_group

from gateway.client import connection, socket
from gateway.telemetry import loop_delay
from tests.support.events import closed, completed, created, delta, in_progress, message, opened
from tests.support.gateway_stand import stand
from tests.support.hang_guard import HANG
from tests.support.http_client import posted
from tests.support.steered import begin, steered
from tests.trips.trace import Trip, recorded

if TYPE_CHECKING:
    from tests.support.exchange import Exchange

_CLIENT_READ = "gateway/client/socket.py:data_received"
_CLIENT_WRITE = "gateway/client/socket.py:write_frames"
_HTTP_WRITE = "gateway/client/http_protocol.py:write"
_UPSTREAM_READ = "gateway/upstream/transport/http/connection.py:data_received"
_UPSTREAM_WRITE = "gateway/upstream/transport/http/connection.py:send"


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn of the loop has time for all that is read, however busy the machine is.

    And no timer falls into a trip.
    """
    monkeypatch.setattr(loop_delay, "PERIOD", HANG)
    for module in (connection, socket):
        monkeypatch.setattr(module, "SHARE", HANG)


def _within(trip: Trip, files: int, changes: int) -> None:
    numbers = f"{len(trip.files)} files and {trip.changes} changes of file"
    way = "\n".join(trip.steps)
    assert {"gateway/client/socket.py", "lanes/worker.py"} <= set(trip.files), way
    assert len(trip.files) <= files, f"{numbers}:\n{way}"
    assert trip.changes <= changes, f"{numbers}:\n{way}"


async def test_a_create_with_a_parent_up_to_the_upstream_request() -> None:
    async with stand() as on:
        _, parent = await on.turn("a")
        _, parent = await on.turn("a", previous_response_id=parent["id"])
        with recorded(_CLIENT_READ, _UPSTREAM_WRITE) as trip:
            await on.turn("a", previous_response_id=parent["id"])
    _within(trip, 28, 42)
    # What does not compact asks nothing of it.
    assert not [file for file in trip.files if "compact" in file or "seals" in file]


async def test_a_steer_up_to_the_request_of_the_successor() -> None:
    async with steered() as on:
        running = await begin(on, "a", *opened())
        await running.says("one")
        await running.steer("once")
        await running.ended("steered")
        running = await running.follows()
        await running.send(*opened())
        await running.says("one", "two")
        await on.turn("b")  # leaves an open connection for the successor's request
        with recorded(_CLIENT_READ, _UPSTREAM_WRITE) as trip:
            await running.steer("again")
            await running.ended("steered")
            running = await running.follows()
        await running.finish()
    _within(trip, 40, 100)


async def test_a_text_delta_from_the_upstream_to_the_client() -> None:
    async with stand() as on:
        running = await begin(on, "a", *opened())
        await running.says("one", "two")
        with recorded(_UPSTREAM_READ, _CLIENT_WRITE) as trip:
            await running.send(delta("three"), until="response.output_text.delta")
        await running.finish()
    _within(trip, 8, 7)
    assert trip.steps == [
        _UPSTREAM_READ.partition(":")[0],
        "gateway/upstream/transport/http/stream.py",
        "gateway/upstream/transport/http/sse.py",
        "lanes/worker.py",
        "lanes/stream/run.py",
        "lanes/stream/upstream_events.py",
        "gateway/client/outbox.py",
        _CLIENT_WRITE.partition(":")[0],
    ]


async def test_a_text_delta_over_http() -> None:
    async with stand() as on, create_task_group() as tasks:
        exchange: Exchange | None = None

        async def answer() -> None:
            nonlocal exchange
            exchange = await on.fake.next()
            await exchange.send(created(), in_progress(), *opened(), delta("one"), delta("two"))

        tasks.start_soon(answer)
        async with posted(on.url, {"stream": True}) as reader:
            for _ in range(2):
                await reader.until("response.output_text.delta")
            assert exchange is not None
            with recorded(_UPSTREAM_READ, _HTTP_WRITE) as trip:
                await exchange.send(delta("three"))
                await reader.until("response.output_text.delta")
            await exchange.send(*closed("onetwothree"), completed(output=[message("onetwothree")]))
            await exchange.end()
            await reader.events()
    assert trip.steps == [
        _UPSTREAM_READ.partition(":")[0],
        "gateway/upstream/transport/http/stream.py",
        "gateway/upstream/transport/http/sse.py",
        "lanes/worker.py",
        "lanes/stream/run.py",
        "lanes/stream/upstream_events.py",
        "gateway/http/sse.py",
        _HTTP_WRITE.partition(":")[0],
        "gateway/client/paced_writer.py",
    ]
