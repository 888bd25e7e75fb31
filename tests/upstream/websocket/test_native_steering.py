"""Steers that are the upstream's to carry out: what it says, and whose successor it makes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from tests.support.hang_guard import HANG
from tests.support.raw_http_server import until
from tests.support.websocket_upstream import Opened, client, opened

if TYPE_CHECKING:
    from gateway.upstream.transport.websocket.native_steering import NativeSteering
    from gateway.upstream.transport.websocket.stream import WebSocketStream
    from tests.support.websocket_upstream import SocketPeer, SocketUpstream


def message(text: str) -> list[dict[str, Any]]:
    return [{"type": "message", "role": "user", "content": text}]


class Steered:
    """A response under way that is steered; `refused` are the steers that the upstream refused."""

    def __init__(self, running: Opened) -> None:
        assert running.stream.steering is not None
        self.running = running
        self.peer, self.lane = running.peer, running.lane
        self.steering: NativeSteering[WebSocketStream] = running.stream.steering
        self.refused: list[str] = []

    def steer(self, name: str) -> None:
        self.steering.steer(name, message(name), lambda: self.refused.append(name))

    async def sent(self, name: str) -> None:
        """Steer, and the upstream has it."""
        self.steer(name)
        frame = await self.peer.steered()
        assert frame == {
            "type": "response.steer",
            "previous_response_id": "up1",
            "input": message(name),
        }

    async def accepted(self, name: str, of: str = "up1") -> None:
        await self.send_verdict("accepted", steer={"id": f"up-{name}", "previous_response_id": of})

    async def failed(self, name: str, code: str = "x", **extra: Any) -> None:
        steer = {"previous_response_id": "up1", "input": message(name), **extra}
        await self.send_verdict("failed", steer=steer, error={"code": code, "message": "no"})

    async def send_verdict(self, kind: str, **fields: Any) -> None:
        await self.peer.say(f"response.steer.{kind}", self.lane, **fields)

    async def stopped(self) -> None:
        """It ends at a boundary of the upstream's."""
        details = {"incomplete_details": {"reason": "steered"}}
        await self.peer.ended(self.lane, "incomplete", **details)
        await self.running.over()

    async def stops_for(self, *steers: str) -> None:
        """The upstream takes each of these steers, and then ends it."""
        for steer in steers:
            await self.sent(steer)
            await self.accepted(steer)
        await self.stopped()

    async def follows(self, *steers: str) -> WebSocketStream | None:
        with anyio.fail_after(HANG):
            return await self.steering.follow(steers)

    async def heard(self) -> None:
        """What was said so far has arrived."""
        count = len(self.running.texts)
        await self.running.says("mark")
        await self.running.have(*self.running.texts[:count], "mark")


async def steered(server: SocketUpstream, one: Any, peer: SocketPeer | None = None) -> Steered:
    return Steered(await opened(server, one, peer))


async def usable(server: SocketUpstream, one: Any, before: Steered) -> None:
    """Its name is free: the next response takes it, on the same socket."""
    again = await opened(server, one, before.peer)
    assert again.lane == before.lane
    await again.finish()


async def test_the_successor_that_carries_just_these(server: SocketUpstream) -> None:
    async with client(server, native=True) as one:
        first = await steered(server, one)
        for name in ("a", "b"):
            await first.sent(name)
            await first.accepted(name)
        await first.running.says("x")
        await first.running.have("x")  # steers are told to nobody else
        await first.stopped()
        kinds = [event["type"] for event in first.running.events]
        assert [kind for kind in kinds if "steer" in kind] == []
        following = asyncio.create_task(first.follows("a", "b"))
        await asyncio.sleep(0)
        await first.peer.created(first.lane, "up2", "up1")
        stream = await following
        assert stream is not None
        second = Opened(first.peer, first.lane, stream)
        await second.says("y")
        await second.have("y")
        first.steering.give_up()  # nothing after `follow`
        again = Steered(second)
        again.steer("c")  # it can be steered in turn
        assert (await first.peer.steered())["previous_response_id"] == "up2"
        await again.accepted("c", of="up2")
        await again.stopped()
        await first.peer.created(first.lane, "up3", "up2")
        third = await again.follows("c")
        assert third is not None
        await Opened(first.peer, first.lane, third).finish()
        await usable(server, one, first)
        assert len(server.peers) == 1


async def test_a_gateway_behind_is_asked_not_to_follow(server: SocketUpstream) -> None:
    for native, told in ((True, "off"), (False, None)):
        async with client(server, native=native) as one:
            running = await opened(server, one)
            assert running.peer.headers.get("multilane-steer-follow") == told


async def test_it_may_have_begun_before_it_is_asked_for(server: SocketUpstream) -> None:
    """What it said meanwhile is not lost."""
    async with client(server, native=True) as one:
        first = await steered(server, one)
        await first.stops_for("a")
        await first.peer.created(first.lane, "up2", "up1")
        await first.peer.delta(first.lane, "early")
        other = await opened(server, one, first.peer)
        stream = await first.follows("a")
        assert stream is not None
        second = Opened(first.peer, first.lane, stream)
        await second.have("early")
        await second.finish()
        await other.finish()


@pytest.mark.parametrize("bound", [[], ["a"], ["b"], ["b", "a"], ["a", "b", "c"]])
async def test_one_that_carries_others_is_given_up(
    server: SocketUpstream, bound: list[str]
) -> None:
    async with client(server, native=True) as one:
        stays = await opened(server, one)
        first = await steered(server, one, stays.peer)
        await first.stops_for("a", "b")
        await first.peer.created(first.lane, "up2", "up1")
        await first.peer.delta(first.lane, "unheard")
        assert await first.follows(*bound) is None
        assert one.sockets.busy == [2]
        await first.peer.ended(first.lane)
        await until(lambda: one.sockets.busy == [1])
        await usable(server, one, first)
        await stays.finish()


async def test_one_that_nobody_asks_for_is_given_up(server: SocketUpstream) -> None:
    async with client(server, native=True) as one:
        stays = await opened(server, one)
        first = await steered(server, one, stays.peer)
        await first.stops_for("a")
        first.steering.give_up()
        await first.peer.created(first.lane, "up2", "up1")
        await first.peer.delta(first.lane, "unheard")
        await stays.says("heard")
        await stays.have("heard")
        assert one.sockets.busy == [2]
        await first.peer.ended(first.lane)
        await until(lambda: one.sockets.busy == [1])
        await stays.finish()


async def test_giving_up_the_only_one_closes_the_socket(server: SocketUpstream) -> None:
    async with client(server, native=True) as one:
        first = await steered(server, one)
        await first.stops_for("a")
        assert one.sockets.busy == [1]
        first.steering.give_up()
        assert await first.peer.gone() == 1000


async def test_cancelled_while_it_waits_for_the_successor(server: SocketUpstream) -> None:
    async with client(server, native=True) as one:
        first = await steered(server, one)
        await first.stops_for("a")
        following = asyncio.create_task(first.follows("a"))
        await asyncio.sleep(0)
        following.cancel()
        assert await first.peer.gone() == 1000


async def test_a_successor_that_does_not_come(server: SocketUpstream) -> None:
    async with client(server, native=True, follow=0.05) as one:
        first = await steered(server, one)
        await first.stops_for("a")
        assert await first.follows("a") is None
        assert await first.peer.gone() == 1000


@pytest.mark.parametrize("how", ["completed", "steered", "failed", "error", "lost"])
async def test_steers_and_every_end(server: SocketUpstream, how: str) -> None:
    """One accepted, one not answered when the response ends."""
    async with client(server, native=True) as one:
        first = await steered(server, one)
        await first.sent("a")
        await first.accepted("a")
        await first.sent("b")
        await first.heard()
        if how == "steered":
            await first.stopped()
        elif how == "error":
            await first.peer.error(first.lane, "server_error", 500)
        elif how == "lost":
            first.peer.socket.transport.abort()
        else:
            await first.peer.ended(first.lane, how)
        await asyncio.wait([first.running.relaying])
        if how in ("completed", "steered"):
            await first.failed("b", "response_not_active")
            await first.peer.created(first.lane, "up2", "up1")
            stream = await first.follows("a")
            assert stream is not None
            stream.close()
            assert first.refused == ["b"]
        else:
            assert await first.follows("a") is None
            assert first.refused == []  # the response is over: nothing is left to be cut


async def test_lost_between_the_end_and_the_successor(server: SocketUpstream) -> None:
    async with client(server, native=True) as one:
        first = await steered(server, one)
        await first.stops_for("a")
        following = asyncio.create_task(first.follows("a"))
        await asyncio.sleep(0)
        first.peer.socket.transport.abort()
        assert await following is None


async def test_a_steer_that_the_upstream_refuses(server: SocketUpstream) -> None:
    async with client(server, native=True) as one:
        first = await steered(server, one)
        for name in ("a", "b", "a"):
            await first.sent(name)
        await first.failed("b", "too_many_pending_steers")  # overtakes: it names its input
        await first.heard()
        assert first.refused == ["b"]
        await first.accepted("a")
        await first.failed("unknown input")
        await first.heard()
        assert first.refused == ["b", "a"]
        await first.failed("a", id="up-a")  # after it was accepted
        await first.running.finish()
        assert await first.follows("a") is None
        await usable(server, one, first)


async def test_all_that_were_accepted_fail_after_the_end(server: SocketUpstream) -> None:
    async with client(server, native=True) as one:
        first = await steered(server, one)
        await first.stops_for("a")
        following = asyncio.create_task(first.follows("a"))
        await first.failed("a", "successor_creation_failed", id="up-a")
        assert await following is None
        await usable(server, one, first)


async def test_steers_that_wait_for_tool_outputs_make_no_successor(server: SocketUpstream) -> None:
    async with client(server, native=True) as one:
        first = await steered(server, one)
        await first.sent("a")
        await first.accepted("a")
        await first.peer.ended(first.lane)
        steer = {"id": "up-a", "previous_response_id": "up1"}
        await first.send_verdict("pending", steer=steer, reason="waiting_for_required_input")
        assert await first.follows("a") is None
        await usable(server, one, first)


@pytest.mark.parametrize("on_lane", [False, True])
@pytest.mark.parametrize(
    "error",
    [
        {"code": "invalid_value", "param": "type", "message": "Unknown type 'response.steer'."},
        {"code": "unknown_event", "message": "response.steer is not known here"},
        {"code": "steering_not_supported", "message": "no"},
    ],
)
async def test_an_upstream_that_knows_no_steers(
    server: SocketUpstream, error: dict[str, Any], on_lane: bool
) -> None:
    async with client(server, native=True) as one:
        first = await steered(server, one)
        second = await steered(server, one, first.peer)
        await first.sent("a")
        await first.peer.error(first.lane if on_lane else None, **error)
        await first.heard()
        assert first.refused == ["a"]
        second.steer("b")  # it is not asked again
        assert second.refused == ["b"]
        await first.running.finish()
        await second.running.finish()
        assert {frame["type"] for frame in first.peer.frames[2:]} == {"response.steer"}
        assert len(first.peer.frames) == 3


async def test_an_upstream_that_says_nothing_of_a_steer(server: SocketUpstream) -> None:
    async with client(server, native=True, steer=0.05) as one:
        first = await steered(server, one)
        await first.sent("a")
        await until(lambda: first.refused == ["a"])
        await first.sent("b")
        await first.accepted("a")  # it comes late, and is still that of the first
        await first.accepted("b")
        await first.stopped()
        await first.peer.created(first.lane, "up2", "up1")
        stream = await first.follows("a", "b")
        assert stream is not None
        stream.close()
        assert first.refused == ["a"]


async def test_silence_until_after_the_end(server: SocketUpstream) -> None:
    """Nobody waits for a successor then; should there be one, its name is not another's."""
    async with client(server, native=True, steer=0.05) as one:
        stays = await opened(server, one)
        first = await steered(server, one, stays.peer)
        await first.sent("a")
        await first.running.finish()
        assert await first.follows("a") is None
        assert first.refused == ["a"]
        await until(lambda: one.sockets.busy == [1])
        await first.accepted("a")
        await first.peer.created(first.lane, "up2", "up1")
        again = await opened(server, one, stays.peer)
        assert again.lane != first.lane
        await again.finish()
        await stays.finish()


async def test_a_failure_may_come_without_a_lane(server: SocketUpstream) -> None:
    async with client(server, native=True) as one:
        stays = await opened(server, one)
        first = await steered(server, one, stays.peer)
        await first.peer.created(first.lane, "up1")
        await first.sent("a")
        steer = {"previous_response_id": "up1", "input": message("a")}
        error = {"code": "response_not_found", "message": "no"}
        await first.peer.say("response.steer.failed", None, steer=steer, error=error)
        unknown = {"previous_response_id": "up0", "input": "x"}
        await first.peer.say("response.steer.failed", None, steer=unknown, error=error)
        await first.heard()
        assert first.refused == ["a"]
        await first.running.finish()
        await stays.finish()


async def test_a_response_without_an_id_is_not_steered(server: SocketUpstream) -> None:
    async with client(server, native=True) as one:
        stays = await opened(server, one)
        posting = asyncio.create_task(_posted(one))
        lane = await stays.peer.asked()
        await stays.peer.say("response.in_progress", lane)
        running = Opened(stays.peer, lane, await posting)
        first = Steered(running)
        first.steer("a")
        assert first.refused == ["a"]
        await running.finish()
        first.steer("late")
        assert first.refused == ["a", "late"]
        await stays.finish()


async def _posted(one: Any) -> WebSocketStream:
    stream: WebSocketStream = await one.post("/responses", b'{"model":"m"}', {})
    return stream


async def test_a_steered_response_that_nobody_wants(server: SocketUpstream) -> None:
    """Cut here after all: the upstream's end, and its successor's, go nowhere."""
    async with client(server, native=True) as one:
        stays = await opened(server, one)
        first = await steered(server, one, stays.peer)
        await first.sent("a")
        await first.accepted("a")
        await first.heard()
        first.running.stream.close()
        await first.running.over()
        await first.peer.ended(first.lane, "incomplete")
        await first.peer.created(first.lane, "up2", "up1")
        await first.peer.delta(first.lane, "unheard")
        await stays.says("heard")
        await stays.have("heard")
        assert one.sockets.busy == [2]
        await first.peer.ended(first.lane)
        await stays.says("too")
        await stays.have("heard", "too")
        await usable(server, one, first)
        await stays.finish()


async def test_a_successor_of_something_else_is_none(server: SocketUpstream) -> None:
    async with client(server, native=True) as one:
        stays = await opened(server, one)
        first = await steered(server, one, stays.peer)
        await first.stops_for("a")
        await first.peer.created(first.lane, "up2", "other")
        assert await first.follows("a") is None
        await first.peer.ended(first.lane)
        await until(lambda: one.sockets.busy == [1])
        await stays.finish()


async def test_a_refused_successor(server: SocketUpstream) -> None:
    async with client(server, native=True) as one:
        first = await steered(server, one)
        await first.stops_for("a")
        following = asyncio.create_task(first.follows("a"))
        await asyncio.sleep(0)
        await first.peer.error(first.lane, "server_error", 500)
        assert await following is None
        await usable(server, one, first)
