"""Whose error it is, what is tried again and where, and what a socket's end does to its lanes."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from websockets.frames import Frame, Opcode

from lanes.errors import UpstreamFault
from tests.support.raw_http_server import soon, until
from tests.support.websocket_upstream import asked, client, opened, post, running

if TYPE_CHECKING:
    from tests.support.websocket_upstream import SocketUpstream

MOVE_ON = ["websocket_connection_limit_reached", "server_shutting_down"]


async def test_a_refusal_has_status_code_and_headers(server: SocketUpstream) -> None:
    async with client(server) as one:
        running = await opened(server, one)
        posting, peer, lane = await asked(server, one, running.peer)
        error = {"headers": {"X-RateLimit-Reset": "7", "cookie": "no"}, "param": "input"}
        await peer.error(lane, "invalid_prompt", 422, **error)
        with pytest.raises(UpstreamFault) as caught:
            await posting
        fault = caught.value
        assert (fault.status, fault.code, fault.type) == (422, "invalid_prompt", "t")
        assert (fault.message, fault.param) == ("it is invalid_prompt", "input")
        assert fault.headers == {"x-ratelimit-reset": "7"}
        again = await opened(server, one, peer)  # its name is free at once
        assert again.lane == lane
        await again.finish()
        await running.finish()


@pytest.mark.parametrize(
    ("status", "headers"), [(503, {}), (502, {}), (429, {"retry-after-ms": "5"})]
)
async def test_what_may_pass_is_tried_again(
    server: SocketUpstream, status: int, headers: dict[str, str]
) -> None:
    async with client(server, retries=1) as one:
        posting, peer, lane = await asked(server, one)
        await peer.error(lane, "busy", status, headers=headers)
        lane = await peer.asked()
        await peer.created(lane)
        (await posting).close()
        assert await peer.gone() == 1000
        posting, peer, lane = await asked(server, one)
        for _ in range(2):
            await peer.error(lane, "busy", status, headers=headers)
            lane = lane if posting.done() else await _next(peer, posting)
        with pytest.raises(UpstreamFault, match="it is busy"):
            await posting


async def _next(peer: Any, posting: asyncio.Task[Any]) -> str:
    """The lane of the next create, if there is one."""
    asking = asyncio.create_task(peer.asked())
    await asyncio.wait([asking, posting], return_when=asyncio.FIRST_COMPLETED)
    if asking.done():
        lane: str = asking.result()
        return lane
    asking.cancel()
    return ""


@pytest.mark.parametrize("code", MOVE_ON)
async def test_a_socket_that_takes_no_more_is_left_for_another(
    server: SocketUpstream, code: str
) -> None:
    async with client(server) as one:
        running = await opened(server, one)
        posting, old, lane = await asked(server, one, running.peer)
        await old.error(lane, code)
        new = await server.accept()
        await new.created(await new.asked())
        (await posting).close()
        await running.says("on")
        await running.have("on")
        await running.finish()
        assert await old.gone() == 1000


async def test_the_age_limit_of_the_socket(server: SocketUpstream) -> None:
    async with client(server) as one:
        running = await opened(server, one)
        posting, old, _ = await asked(server, one, running.peer)
        await old.error(None, "websocket_connection_limit_reached")
        new = await server.accept()
        await new.created(await new.asked())
        (await posting).close()
        await running.says("on")
        await running.have("on")
        await old.socket.close(1000, "age")
        with pytest.raises(UpstreamFault, match=r"closed the socket \(1000 age\)"):
            await running.over()


async def test_an_error_without_a_lane_is_that_of_the_one_that_waits(
    server: SocketUpstream,
) -> None:
    async with client(server) as one:
        running = await opened(server, one)
        posting, peer, _ = await asked(server, one, running.peer)
        await peer.error(None, "invalid_json")
        with pytest.raises(UpstreamFault, match="it is invalid_json"):
            await posting
        await peer.error(None, "server_error", 500)  # now only one is there
        await running.over()
        assert running.events[-1]["type"] == "error"


async def test_an_error_without_a_lane_while_several_wait_is_tried_elsewhere(
    server: SocketUpstream,
) -> None:
    async with client(server) as one:
        running = await opened(server, one)
        first, old, _ = await asked(server, one, running.peer)
        second, _, _ = await asked(server, one, old)
        await old.error(None, "oops", 400)
        new = await server.accept()
        for _ in range(2):
            await new.created(await new.asked())
        for posting in (first, second):
            (await posting).close()
        await running.finish()
        assert await old.gone() == 1000


async def test_an_error_within_a_response_is_its_last_event(server: SocketUpstream) -> None:
    async with client(server, lanes=2) as one:
        stays = await opened(server, one)
        running = await opened(server, one, stays.peer)
        await running.peer.error(running.lane, "server_error", 500)
        await running.over()
        assert running.events[-1]["type"] == "error"
        await running.peer.ended(running.lane, "failed")  # some say both
        other = await opened(server, one)
        assert other.peer is not stays.peer  # so that it cannot be taken for the next one's
        await stays.finish()
        await other.finish()


@pytest.mark.parametrize("code", [1000, 1001, 1011, 1012, 1013])
async def test_a_socket_that_is_closed(server: SocketUpstream, code: int) -> None:
    async with client(server) as one:
        running = await opened(server, one)
        posting, old, _ = await asked(server, one, running.peer)
        await old.socket.close(code, "restart")
        new = await server.accept()
        await new.created(await new.asked())
        (await posting).close()
        with pytest.raises(UpstreamFault) as caught:
            await running.over()
        assert caught.value.message == f"The backend closed the socket ({code} restart)."
        assert caught.value.status == 502


async def test_a_socket_that_breaks(server: SocketUpstream) -> None:
    async with client(server, retries=1) as one:
        running = await opened(server, one)
        posting, old, _ = await asked(server, one, running.peer)
        old.socket.transport.abort()
        new = await server.accept()
        await new.asked()
        new.socket.transport.abort()
        for task in (posting, running.relaying):
            with pytest.raises(UpstreamFault, match="socket broke") as caught:
                await task
            assert caught.value.status == 502
        assert len(server.peers) == 2  # it was tried so often and no more


async def test_a_request_that_is_too_large_is_not_sent_again() -> None:
    async with running(max_size=2000) as server, client(server) as one:
        small, _, _ = await asked(server, one)
        large = asyncio.create_task(post(one, "x" * 3000))
        new = await server.accept()
        await new.created(await new.asked())
        (await small).close()
        with pytest.raises(UpstreamFault, match="larger than the backend's socket takes") as caught:
            await large
        assert (caught.value.status, caught.value.code) == (413, "request_too_large")
        assert len(server.peers) == 2


@pytest.mark.parametrize("first", [False, True])
async def test_an_event_that_is_too_large_fails_its_response_alone(
    server: SocketUpstream, first: bool
) -> None:
    """Wherever the event names its lane, and whatever its text looks like."""
    async with client(server, max_event=3000) as one:
        stays = await opened(server, one)
        running = await opened(server, one, stays.peer)
        text = json.dumps({"stream_id": stays.lane}) + "x" * 4000
        where = {"stream_id": running.lane}
        event = {"type": "response.x.delta", "delta": text}
        await running.peer.socket.send(json.dumps({**where, **event} if first else event | where))
        with pytest.raises(UpstreamFault, match="an event of more than 3000 bytes"):
            await running.over()
        await stays.says("fine")
        await stays.have("fine")
        assert one.sockets.busy == [2]
        await running.peer.ended(running.lane, output="x" * 5000)
        await stays.says("still")
        await stays.have("fine", "still")
        assert one.sockets.busy == [1]
        await stays.finish()


async def test_an_event_that_is_too_large_and_does_not_say_whose_it_is(
    server: SocketUpstream,
) -> None:
    async with client(server, max_event=3000) as one:
        running = await opened(server, one)
        await running.peer.socket.send("x" * 4000)
        with pytest.raises(UpstreamFault, match="an event of more than 3000 bytes"):
            await running.over()


async def test_a_frame_that_is_too_large_and_no_event(server: SocketUpstream) -> None:
    async with client(server, max_event=3000) as one:
        running = await opened(server, one)
        await running.peer.socket.send(b"x" * 4000)
        with pytest.raises(UpstreamFault, match="an event of more than 3000 bytes"):
            await running.over()
        assert await running.peer.gone() == 1009


async def test_an_event_that_is_no_json(server: SocketUpstream) -> None:
    async with client(server) as one:
        running = await opened(server, one)
        await running.peer.socket.send('{"type":"response.x","stream_id":')
        with pytest.raises(UpstreamFault, match="not JSON"):
            await running.over()
        other = await opened(server, one)
        assert other.peer is not running.peer
        await other.finish()


async def test_json_that_is_nearly_json_reaches_its_lane(server: SocketUpstream) -> None:
    async with client(server) as one:
        running = await opened(server, one)
        fields = f'"type":"response.x.delta","stream_id":"{running.lane}","delta":"a","p":NaN'
        await running.peer.socket.send(f"{{{fields}}}")
        await running.have("a")
        await running.finish()


async def test_events_that_name_no_lane(server: SocketUpstream) -> None:
    async with client(server) as one:
        running = await opened(server, one)
        await running.peer.say("response.x.delta", None, delta="mine")
        await running.have("mine")
        other = await opened(server, one, running.peer)
        await running.peer.say("rate_limits.updated", None, delta="nobody's")
        await running.peer.say("response.x.delta", "unknown", delta="nobody's")
        await running.says("yes")
        await running.have("mine", "yes")
        await running.peer.say("response.x.delta", None, delta="whose?")
        for each in (running, other):
            with pytest.raises(UpstreamFault, match="do not say which lane"):
                await each.over()


async def test_a_broken_protocol(server: SocketUpstream) -> None:
    async with client(server) as one:
        running = await opened(server, one)
        running.peer.socket.transport.write(Frame(Opcode.TEXT, b"{}").serialize(mask=True))
        with pytest.raises(UpstreamFault, match="broke the WebSocket protocol"):
            await running.over()


async def test_parts_and_pings(server: SocketUpstream) -> None:
    async with client(server) as one:
        running = await opened(server, one)
        text = json.dumps({"type": "response.x.delta", "stream_id": running.lane, "delta": "whole"})
        await running.peer.socket.send([text[:9], text[9:20], text[20:]])
        await running.have("whole")
        await soon(await running.peer.socket.ping(b"there?"))  # type: ignore[arg-type]
        await running.finish()


async def test_pings_that_nobody_answers(server: SocketUpstream) -> None:
    async with client(server, ping=0.5) as one:
        running = await opened(server, one)
        await asyncio.sleep(1.2)  # they are answered by themselves
        await running.says("a")
        await running.have("a")
        running.peer.socket.transport.pause_reading()
        with pytest.raises(UpstreamFault, match=r"did not answer a ping within 0\.5 seconds"):
            await running.over()
        running.peer.socket.transport.resume_reading()


async def test_silence_before_and_within_a_response(server: SocketUpstream) -> None:
    async with client(server, first_byte=1.0, idle=0.5) as one:
        stays = await opened(server, one)
        posting, peer, _ = await asked(server, one, stays.peer)
        running = await opened(server, one, peer)
        for _ in range(11):
            await asyncio.sleep(0.1)
            await stays.says("x")
        with pytest.raises(UpstreamFault, match=r"nothing for 0\.5 seconds") as caught:
            await running.over()
        assert (caught.value.status, caught.value.code) == (504, "timeout")
        with pytest.raises(UpstreamFault, match=r"nothing for 1 seconds"):
            await posting
        await stays.finish()


async def test_what_a_sink_raises_is_that_responses_alone(server: SocketUpstream) -> None:
    async with client(server) as one:
        stays = await opened(server, one)
        posting, peer, lane = await asked(server, one, stays.peer)
        await peer.created(lane)
        stream = await posting

        def sink(events: object) -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await soon(stream.relay(sink))
        await stays.says("on")
        await stays.have("on")
        await until(lambda: one.sockets.busy == [2])  # the upstream has not ended it yet
        await peer.ended(lane)
        await stays.finish()
        assert one.sockets.busy == [0]
