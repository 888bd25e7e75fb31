"""The fake client keeps lanes apart and lets nothing pass unjudged."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from websockets.asyncio.server import ServerConnection, serve

from tests.support.client import connect
from tests.support.test_judge import call, error, good

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def _server(*frames: str | bytes) -> AsyncIterator[str]:
    """Sends these frames once it was sent one, then closes."""

    async def handler(socket: ServerConnection) -> None:
        await socket.recv()
        for frame in frames:
            await socket.send(frame)

    async with serve(handler, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/v1"


async def test_lanes_are_read_one_by_one() -> None:
    a, default = good("a"), call(None)
    default = json.loads(json.dumps(default).replace("a" * 32, "e" * 32))
    mixed = [*a[:5], *default, *a[5:]]
    async with _server(*map(json.dumps, mixed)) as url, connect(url) as client:
        await client.create("a")
        assert [e["type"] for e in await client.until("response.completed", lane="a")] == [
            e["type"] for e in a
        ]
        assert await client.until("response.completed", lane=None) == default
        assert client.transcript == mixed
        assert client.lane(None) == default
        assert await client.closed() == (1000, "")


async def test_every_frame_is_judged() -> None:
    wrong = good()[1]
    async with _server(json.dumps(wrong)) as url:
        async with connect(url) as client:
            await client.send("x")
            with pytest.raises(AssertionError, match="no response runs"):
                await client.event()
        async with connect(url, judged=False) as client:
            await client.send(b"x")
            assert await client.event() == wrong


@pytest.mark.parametrize("frame", ['{"type":"error","status":NaN}', '{"a":1,"a":2}', b"{}"])
async def test_only_strict_json_in_text_frames_is_taken(frame: str | bytes) -> None:
    async with _server(frame) as url, connect(url, judged=False) as client:
        await client.send({})
        with pytest.raises(AssertionError):
            await client.event()


async def test_errors_are_found_by_lane() -> None:
    frames = (json.dumps(error()), json.dumps(error(stream_id="b")))
    async with _server(*frames) as url, connect(url) as client:
        await client.create("b")
        assert "stream_id" in await client.error("b")
        assert "stream_id" not in await client.error(None)
