"""Keys that a backend refuses over its WebSocket, and tools in namespaces that it does not know."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from gateway.config.upstream_settings import UpstreamSettings
from gateway.upstream.backend import Backend
from lanes.codec import encode

if TYPE_CHECKING:
    from tests.support.websocket_upstream import SocketUpstream

ITEM = encode({"role": "user", "content": "hi"})
SPACE = {"type": "namespace", "name": "crm", "tools": [{"type": "function", "name": "search"}]}


def backend(server: SocketUpstream, dialect: str) -> Backend:
    where = {"name": "a", "url": server.url, "dialect": dialect, "retries": 0}
    return Backend(UpstreamSettings(**where, transport="websocket"))


async def test_a_create_is_sent_again_without_the_key(server: SocketUpstream) -> None:
    one = backend(server, "openai")
    body = {"model": "m", "input": "hi", "metadata": {"a": "b"}}
    opening = asyncio.create_task(one.open(body, [ITEM], {}))
    peer = await server.accept()
    lane = await peer.asked()
    told = "Unknown parameter: 'metadata'."
    await peer.error(lane, "unknown_parameter", message=told, param="metadata")
    lane = await peer.asked()
    assert "metadata" in peer.frames[0]
    assert "metadata" not in peer.frames[1]
    await peer.created(lane)
    (await opening).close()
    await one.aclose()


async def test_calls_by_flat_names_come_back_by_both(server: SocketUpstream) -> None:
    one = backend(server, "xai")
    opening = asyncio.create_task(one.open({"model": "m", "tools": [SPACE]}, [ITEM], {}))
    peer = await server.accept()
    lane = await peer.asked()
    assert [tool["name"] for tool in peer.frames[0]["tools"]] == ["crm__search"]
    await peer.created(lane)
    stream = await opening
    item = {"type": "function_call", "call_id": "c", "name": "crm__search", "arguments": "{}"}
    await peer.say("response.output_item.done", lane, output_index=0, item=item)
    await peer.ended(lane)
    events: list[bytes] = []
    await stream.relay(lambda batch: events.extend(data for _, data in batch))
    (done,) = [json.loads(data) for data in events if b"output_item.done" in data]
    assert (done["item"]["namespace"], done["item"]["name"]) == ("crm", "search")
    stream.close()
    await one.aclose()
