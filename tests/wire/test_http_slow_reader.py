"""A client that does not read its answer over HTTP costs what is configured, and not for long."""

from __future__ import annotations

import json
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from gateway.client.http_protocol import ClientHttp
from tests.support.exchange import hung_up
from tests.support.hang_guard import HANG
from tests.support.http_client import Answer
from tests.support.judge import StreamJudge
from tests.support.raw_client import Raw, tcp
from tests.support.wire_stand import WireStand, disconnected, standing
from tests.wire.test_slow_reader import BOUND, WORD, long

NARROW = 1 << 15


def doors(stand: WireStand) -> list[ClientHttp]:
    """The gateway's end of each connection."""
    return [one for one in stand.server.server_state.connections if isinstance(one, ClientHttp)]


async def create(client: Raw, **fields: Any) -> None:
    """Send a create and read nothing."""
    body = json.dumps({"model": "m", "input": "hi", "store": False, **fields}).encode()
    head = "POST /v1/responses HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    await client.write(head.encode() + body)


async def full(stand: WireStand, size: int) -> ClientHttp:
    """The only connection, once so many bytes are unsent."""
    with anyio.fail_after(HANG):
        while not any(door.unsent > size for door in doors(stand)):  # noqa: ASYNC110
            await anyio.sleep(0.001)
    [door] = doors(stand)
    return door


def answered(client: Raw) -> Answer:
    """The answer, which is read from now on."""
    return Answer(lambda: client.read(1 << 16), StreamJudge())


async def test_it_resumes_without_loss_when_it_reads_again() -> None:
    count = 500
    async with (
        standing(long(count), send_buffer_bytes=BOUND) as stand,
        tcp(stand.port, receive_buffer=NARROW) as client,
    ):
        await create(client, stream=True)
        door = await full(stand, BOUND)
        most = 0
        for _ in range(200):
            await anyio.lowlevel.checkpoint()
            most = max(most, door.unsent)
        assert most < BOUND + (300 << 10)
        assert not stand.fake.exchanges[0].ended
        events = await answered(client).events()
        assert events[-1]["type"] == "response.completed"
        deltas = [e["delta"] for e in events if e["type"] == "response.output_text.delta"]
        assert deltas == [WORD] * count


async def test_a_stream_that_nobody_reads_ends_and_so_does_its_upstream() -> None:
    async with standing(long(500), send_buffer_bytes=BOUND, stall_timeout=0.2) as stand:
        async with tcp(stand.port, receive_buffer=NARROW) as client:
            await create(client, stream=True)
            await full(stand, BOUND)
            await disconnected(stand)
        await hung_up(*stand.fake.exchanges)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_an_answer_that_is_over_and_that_nobody_reads_is_dropped(stream: bool) -> None:
    """Also one below the bound: nothing more will come that could fill it."""
    async with (
        standing(long(700), stall_timeout=0.2, send_buffer_bytes=64 << 20) as stand,
        tcp(stand.port, receive_buffer=NARROW) as client,
    ):
        await create(client, stream=stream)
        await full(stand, 1 << 20)
        await disconnected(stand)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_an_answer_that_is_over_is_read_late(stream: bool) -> None:
    async with (
        standing(long(700), send_buffer_bytes=BOUND if stream else 8 << 20) as stand,
        tcp(stand.port, receive_buffer=NARROW) as client,
    ):
        await create(client, stream=stream)
        await full(stand, BOUND)
        answer = answered(client)
        if stream:
            response = (await answer.events())[-1]["response"]
        else:
            response = json.loads(await answer.body())
        assert response["output"][0]["content"][0]["text"] == WORD * 700


async def test_a_log_is_read_slowly_without_loss() -> None:
    """A response that others follow, too, waits for nobody; its events wait in its log."""
    async with (
        standing(long(300), send_buffer_bytes=BOUND) as stand,
        tcp(stand.port, receive_buffer=NARROW) as client,
    ):
        body = json.dumps({"model": "m", "input": "hi", "store": False, "stream": True}).encode()
        head = "POST /v1/responses HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\n"
        head += f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        await client.write(head.encode() + body)
        door = await full(stand, BOUND)
        with anyio.fail_after(HANG):
            while not stand.fake.exchanges[0].ended:  # noqa: ASYNC110 - the script's flag
                await anyio.sleep(0.001)
        assert door.unsent < BOUND + (600 << 10)
        events = await answered(client).events()
        deltas = [e["delta"] for e in events if e["type"] == "response.output_text.delta"]
        assert deltas == [WORD] * 300
