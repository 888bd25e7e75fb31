"""Many responses over few sockets: names, sharing, age, idling, and who gets which event."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import anyio
import pytest

from lanes.errors import UpstreamFault
from tests.support.hang_guard import HANG
from tests.support.raw_http_server import until
from tests.support.websocket_upstream import asked, client, opened, post

if TYPE_CHECKING:
    from tests.support.websocket_upstream import SocketUpstream


async def test_a_create_is_the_post_with_an_envelope(server: SocketUpstream) -> None:
    async with client(server) as one:
        running = await opened(server, one, authorization="Bearer k", user_agent="u")
        [frame] = running.peer.frames
        lane = frame["stream_id"]
        create = {"type": "response.create", "stream_id": lane, "model": "m", "input": "hi"}
        assert frame == {**create, "store": False}
        shown = running.peer.headers
        assert (shown["authorization"], shown["user-agent"]) == ("Bearer k", "u")
        assert shown["host"] == f"127.0.0.1:{server.port}"
        assert "sec-websocket-extensions" not in shown
        assert running.peer.socket.request is not None
        assert running.peer.socket.request.path == "/v1/responses"
        await running.says("a", "b")
        await running.have("a", "b")
        await running.finish()


async def test_each_lane_gets_its_own_and_all_of_a_read_at_once(server: SocketUpstream) -> None:
    async with client(server) as one:
        first = await opened(server, one)
        second = await opened(server, one, first.peer)
        assert first.lane != second.lane
        before = len(first.reads)
        frames = [
            json.dumps({"type": "response.x.delta", "stream_id": lane, "delta": str(number)})
            for number, lane in enumerate([first.lane, first.lane, second.lane, first.lane])
        ]
        transport = first.peer.socket.transport
        transport.write(b"".join(b"\x81%c%b" % (len(text), text.encode()) for text in frames))
        await first.have("0", "1", "3")
        await second.have("2")
        assert first.reads[before:] == [3]
        await first.finish()
        await second.finish()


async def test_the_seventeenth_opens_another_socket(server: SocketUpstream) -> None:
    async with client(server) as one:
        running = [await opened(server, one)]
        running += [await opened(server, one, running[0].peer) for _ in range(15)]
        assert len({each.lane for each in running}) == 16
        other = await opened(server, one)
        assert len(server.peers) == 2
        assert one.sockets.busy == [16, 1]
        freed = running[3]
        await freed.finish()
        again = await opened(server, one, running[0].peer)
        assert again.lane == freed.lane
        for each in [*running[:3], *running[4:], other, again]:
            await each.says("x")
            await each.have("x")
            await each.finish()
        assert one.sockets.busy == [0, 0]


async def test_names_are_used_again_and_again(server: SocketUpstream) -> None:
    async with client(server) as one:
        running = await opened(server, one)
        peer = running.peer
        await running.finish()
        for _ in range(70):
            await (await opened(server, one, peer)).finish()
        assert len({frame["stream_id"] for frame in peer.frames}) <= 16
        assert len(server.peers) == 1


async def test_creates_that_come_at_once_share_the_socket_that_is_dialled(
    server: SocketUpstream,
) -> None:
    async with client(server) as one:
        posting = [asyncio.create_task(post(one)) for _ in range(20)]
        peers = [await server.accept(), await server.accept()]
        for peer, count in zip(peers, (16, 4), strict=True):
            for _ in range(count):
                await peer.created(await peer.asked())
        for stream in await asyncio.gather(*posting):
            stream.close()
        assert [await peer.gone() for peer in peers] == [1000, 1000]
        assert len(server.peers) == 2


async def test_who_shows_other_headers_has_another_socket(server: SocketUpstream) -> None:
    async with client(server) as one:
        ann = await opened(server, one, authorization="ann")
        bob = await opened(server, one, authorization="bob")
        assert (ann.peer.headers["authorization"], bob.peer.headers["authorization"]) == (
            "ann",
            "bob",
        )
        also = await opened(server, one, ann.peer, authorization="ann", traceparent="00-1")
        assert "traceparent" not in ann.peer.headers
        for each in (ann, bob, also):
            await each.finish()


async def test_who_leaves_while_it_is_dialled_takes_nobody_along(server: SocketUpstream) -> None:
    async with client(server) as one:
        first = asyncio.create_task(post(one))
        second = asyncio.create_task(post(one))
        await asyncio.sleep(0)
        first.cancel()
        peer = await server.accept()
        await peer.created(await peer.asked())
        (await second).close()
        assert await peer.gone() == 1000


async def test_an_idle_socket_is_closed(server: SocketUpstream) -> None:
    async with client(server, keep_idle=0.05) as one:
        running = await opened(server, one)
        await running.says("a")
        await running.have("a")
        await running.finish()
        assert await running.peer.gone() == 1000
        assert one.sockets.busy == []
        other = await opened(server, one)
        await asyncio.sleep(0.1)
        await other.says("still")
        await other.have("still")
        await other.finish()


async def test_an_old_socket_takes_no_more_and_closes_after_its_last(
    server: SocketUpstream,
) -> None:
    async with client(server, max_age=0.05) as one:
        old = await opened(server, one)
        await asyncio.sleep(0.06)
        new = await opened(server, one)
        assert new.peer is not old.peer
        await old.says("a")
        await old.have("a")
        await old.finish()
        assert await old.peer.gone() == 1000
        await new.finish()


async def test_the_number_of_sockets_is_bounded(server: SocketUpstream) -> None:
    async with client(server, sockets=2, retries=0) as one:
        ann = await opened(server, one, authorization="ann")
        bob = await opened(server, one, authorization="bob")
        with pytest.raises(UpstreamFault, match="All 2 sockets") as caught:
            await post(one, authorization="eve")
        assert caught.value.status == 503
        await ann.finish()
        eve = await opened(server, one, authorization="eve")
        assert await ann.peer.gone() == 1000  # nobody used it
        await bob.finish()
        await eve.finish()


async def test_what_nobody_wants_goes_nowhere_and_keeps_its_name_until_it_ends(
    server: SocketUpstream,
) -> None:
    async with client(server, lanes=2) as one:
        stays = await opened(server, one)
        left = await opened(server, one, stays.peer)
        left.stream.close()
        await left.over()
        third = await opened(server, one)  # the name is not free
        assert third.peer is not stays.peer
        await left.says("unheard")
        await stays.says("heard")
        await stays.have("heard")
        assert left.texts == []
        await left.peer.ended(left.lane)
        await stays.says("too")
        await stays.have("heard", "too")
        again = await opened(server, one, stays.peer)
        assert again.lane == left.lane
        for each in (stays, third, again):
            await each.finish()


async def test_a_socket_of_which_nobody_wants_anything_is_closed(server: SocketUpstream) -> None:
    async with client(server) as one:
        first = await opened(server, one)
        second = await opened(server, one, first.peer)
        first.stream.close()
        await second.says("a")
        await second.have("a")
        second.relaying.cancel()
        assert await first.peer.gone() == 1000
        assert one.sockets.busy == []


async def test_a_create_that_is_cancelled_closes_its_socket(server: SocketUpstream) -> None:
    async with client(server) as one:
        posting, peer, _ = await asked(server, one)
        posting.cancel()
        assert await peer.gone() == 1000


async def test_a_name_that_never_ends_is_given_up(server: SocketUpstream) -> None:
    async with client(server, idle=1.0, lanes=2) as one:
        stays = await opened(server, one)
        left = await opened(server, one, stays.peer)
        left.stream.close()
        for number in range(12):
            await stays.says(str(number))
            await asyncio.sleep(0.1)
        await until(lambda: one.sockets.busy == [1])
        other = await opened(server, one)  # the name that did not end is not used again
        assert other.peer is not stays.peer
        await stays.finish()
        again = await opened(server, one, stays.peer)
        assert again.lane == stays.lane
        await again.finish()
        await other.finish()


async def test_a_slow_client_holds_nobody_up(server: SocketUpstream) -> None:
    async with client(server) as one:
        slow = await opened(server, one)
        quick = await opened(server, one, slow.peer)
        await slow.says("0")
        await slow.have("0")
        slow.stream.pause()
        for number in range(1, 50):
            await slow.says(str(number))
            await quick.says(str(number))
        await quick.have(*(str(number) for number in range(1, 50)))
        assert slow.texts == ["0"]
        slow.stream.resume()
        await slow.have(*(str(number) for number in range(50)))
        slow.stream.pause()
        await slow.says("last")
        await slow.peer.ended(slow.lane)
        await quick.finish()
        assert not slow.relaying.done()
        slow.stream.resume()
        await slow.over()
        assert slow.texts[-1] == "last"


async def test_too_much_for_a_slow_client_fails_that_response_alone(server: SocketUpstream) -> None:
    async with client(server, max_event=2000) as one:
        slow = await opened(server, one)
        quick = await opened(server, one, slow.peer)
        slow.stream.pause()
        for _ in range(4):
            await slow.says("x" * 600)
        with pytest.raises(UpstreamFault, match="More than 2000 bytes") as caught:
            await slow.over()
        assert (caught.value.code, caught.value.status) == ("slow_consumer", 503)
        await quick.says("fine")
        await quick.have("fine")
        await quick.finish()


async def test_closing_ends_what_runs_and_waits_for_the_sockets(server: SocketUpstream) -> None:
    async with client(server) as one:
        running = await opened(server, one)
        posting, _, _ = await asked(server, one, running.peer)
        with anyio.fail_after(HANG):
            await one.aclose()
        for task in (running.relaying, posting):
            with pytest.raises(UpstreamFault) as caught:
                await task
            assert (caught.value.status, caught.value.message) == (
                503,
                "The gateway is shutting down.",
            )
        assert await running.peer.gone() == 1000
        with pytest.raises(UpstreamFault, match="shutting down"):
            await post(one)
