"""Values of the wrong type, and events that cannot be read: they harm one response at most."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gateway.upstream.transport.websocket.event_heads import read_edges
from lanes.errors import UpstreamFault
from tests.support.websocket_upstream import asked, client, opened
from tests.upstream.websocket.test_native_steering import message

if TYPE_CHECKING:
    from tests.support.websocket_upstream import SocketUpstream

WRONG: list[Any] = [7, True, None, [], ["lane15"], {"a": 1}]
DEEP = "[" * 100_000 + "]" * 100_000


def odd(lane: str | None) -> list[dict[str, Any]]:
    """Events that say nothing, and end nothing but perhaps their own response."""
    kinds = [{"type": wrong, "stream_id": lane} for wrong in WRONG]
    lanes = [{"type": "response.x", "stream_id": wrong} for wrong in WRONG if wrong is not None]
    ids = [
        {"type": f"response.steer.{verdict}", "stream_id": lane, "steer": steer}
        for verdict in ("accepted", "pending", "failed")
        for wrong in WRONG
        for steer in (wrong, {"previous_response_id": "up1", "id": wrong, "input": wrong})
    ]
    heads = [{"type": "response.created", "stream_id": lane, "response": wrong} for wrong in WRONG]
    return [*kinds, *lanes, *ids, *heads]


@pytest.mark.parametrize("native", [False, True])
async def test_values_of_the_wrong_type(server: SocketUpstream, native: bool) -> None:
    async with client(server, native=native) as one:
        stays = await opened(server, one)
        running = await opened(server, one, stays.peer)
        if running.stream.steering is not None:
            for name in "abcdefgh":
                running.stream.steering.steer(name, message(name), lambda: None)
        for event in odd(running.lane):
            await running.peer.socket.send(json.dumps(event))
        for each in (running, stays):
            await each.says("on")
            await each.have("on")
        await stays.finish()


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("wrong", WRONG)
async def test_an_error_with_a_code_of_the_wrong_type(
    server: SocketUpstream, begun: bool, wrong: Any
) -> None:
    async with client(server, retries=0) as one:
        stays = await opened(server, one)
        posting, peer, lane = await asked(server, one, stays.peer)
        if begun:
            await peer.created(lane)
            await posting
        await peer.error(lane, wrong, 422)
        if not begun:
            with pytest.raises(UpstreamFault, match="it is") as caught:
                await posting
            assert caught.value.status == 422
        await stays.says("on")
        await stays.have("on")
        await stays.finish()


@pytest.mark.parametrize("text", [f'"x":{DEEP}', '"x":nope'])
async def test_an_event_that_cannot_be_read_fails_its_response_alone(
    server: SocketUpstream, text: str
) -> None:
    async with client(server) as one:
        stays = await opened(server, one)
        running = await opened(server, one, stays.peer)
        event = f'{{"type":"response.x","stream_id":"{running.lane}",{text}}}'
        await running.peer.socket.send(event)
        with pytest.raises(UpstreamFault, match="not JSON"):
            await running.over()
        await stays.says("on")
        await stays.have("on")
        await stays.finish()


@pytest.mark.parametrize("first", [False, True])
async def test_what_a_client_calls_a_lane_is_none(server: SocketUpstream, first: bool) -> None:
    """Its metadata comes back within the response."""
    async with client(server, max_event=3000) as one:
        stays = await opened(server, one)
        running = await opened(server, one, stays.peer)
        within = {"output": "x" * 4000, "metadata": {"stream_id": stays.lane}}
        event = {"type": "response.completed", "response": within}
        where = {"stream_id": running.lane}
        await running.peer.socket.send(json.dumps({**where, **event} if first else event | where))
        with pytest.raises(UpstreamFault, match="an event of more than 3000 bytes"):
            await running.over()
        await stays.says("on")
        await stays.have("on")
        await stays.finish()


@pytest.mark.parametrize(
    ("first", "last", "type_and_lane"),
    [
        (b'{"a":{"type":"no","stream_id":"no"},"type":"x","b":[', b"]}", ("x", "")),
        (b'{"a":["', b'"],"stream_id":"l","type":"x"}', ("x", "l")),
        (b'{"a":["', b'{"stream_id":"no"}],"stream_id":"l","b":"}"}', ("", "l")),
        (b'{"stream_id":"l","a":"{', b'","b":{"stream_id":"no"}}', ("", "l")),
        (b'["', b'","stream_id":"no"', ("", "")),
    ],
)
def test_the_two_ends(first: bytes, last: bytes, type_and_lane: tuple[str, str]) -> None:
    assert read_edges(first, last) == type_and_lane


@pytest.mark.parametrize("text", ["null", "[]", '""', "ping", "[DONE]", "7", "", "{}"])
async def test_a_frame_that_carries_nothing_is_skipped(server: SocketUpstream, text: str) -> None:
    async with client(server) as one:
        stays = await opened(server, one)
        await stays.peer.socket.send(text)
        await stays.says("on")
        await stays.have("on")
        await stays.finish()
