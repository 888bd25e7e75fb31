"""B94 over a WebSocket: two halves of a character in two frames are one character."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from gateway.config.upstream_settings import UpstreamSettings
from gateway.upstream.backend import Backend
from lanes.codec import encode
from tests.machines.drive import REQUEST, Played, start
from tests.support.dialect_reading import check

if TYPE_CHECKING:
    from lanes.ports import Event
    from tests.support.websocket_upstream import SocketUpstream

ITEM = encode({"role": "user", "content": "hi"})
HIGH, LOW, FACE = "\ud83d", "\ude00", "\U0001f600"


async def heard(server: SocketUpstream, deltas: list[str], *, called: bool) -> Played:
    """The response whose deltas came in frames of their own, of a text or of a call."""
    where = {"name": "a", "url": server.url, "dialect": "openai", "retries": 0}
    one = Backend(UpstreamSettings(**where, transport="websocket"))
    opening = asyncio.create_task(one.open(REQUEST, [ITEM], {}))
    peer = await server.accept()
    lane = await peer.asked()
    await peer.created(lane)
    stream = await opening
    if called:
        item: dict[str, Any] = {
            "type": "function_call",
            "id": "i",
            "call_id": "c",
            "name": "f",
            "arguments": "",
        }
        kind = "response.function_call_arguments.delta"
    else:
        item = {"type": "message", "id": "i", "role": "assistant", "content": []}
        kind = "response.output_text.delta"
    await peer.say("response.output_item.added", lane, output_index=0, item=item)
    place = {"item_id": "i", "output_index": 0} | ({} if called else {"content_index": 0})
    for delta in deltas:
        await peer.say(kind, lane, **place, delta=delta)
    await peer.ended(lane)
    run, sent = start(REQUEST, stream.profile)

    def sink(batch: list[Event]) -> None:
        for name, data in batch:
            run.receive(name, data)

    await stream.relay(sink)
    run.end()
    await one.aclose()
    played = Played(run, sent)
    check(played)
    return played


@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize(
    ("deltas", "whole"),
    [
        ([f"a{HIGH}", f"{LOW}b"], f"a{FACE}b"),
        ([HIGH, "", LOW], FACE),
        ([f"{FACE}{HIGH}", LOW], FACE * 2),
        ([f"a{HIGH}", "b"], "a\ufffdb"),
        ([f"a{LOW}", "b"], "a\ufffdb"),
        ([f"a{HIGH}"], "a\ufffd"),
    ],
)
async def test_b94_halves_in_frames(
    server: SocketUpstream, deltas: list[str], whole: str, called: bool
) -> None:
    wrapped = ['{"a":"', *deltas, '"}'] if called else deltas
    played = await heard(server, wrapped, called=called)
    (item,) = played.output
    if called:
        assert item["arguments"] == f'{{"a":"{whole}"}}'
    else:
        assert item["content"][0]["text"] == whole
        assert played.texts("output_text") == whole
