"""A response that nobody wants any more on a socket that others use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cases.test_cancel import SOON
from tests.support.events import reply
from tests.support.exchange import hung_up
from tests.support.gateway_stand import stand
from tests.support.steered import talking
from tests.support.websocket_upstream import asked, client, opened, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from websockets.asyncio.server import ServerConnection
    from websockets.http11 import Request, Response

    from tests.support.websocket_upstream import SocketUpstream
    from tests.upstream.websocket.behind import Behind

#: How a backend may say that it takes `response.cancel`.
NAMED = pytest.mark.parametrize(
    "said", ["response.cancel", "other, response.cancel", "response.cancel ,x"]
)


@pytest.fixture
async def said() -> str:
    return "response.cancel"


@pytest.fixture
async def cancels(said: str) -> AsyncIterator[SocketUpstream]:
    """A backend that says so."""

    def name(_: ServerConnection, __: Request, answer: Response) -> None:
        answer.headers["Multilane-Extensions"] = said

    async with running(process_response=name) as server:
        yield server


@NAMED
async def test_a_backend_that_takes_a_cancel_gets_one(cancels: SocketUpstream) -> None:
    async with client(cancels) as one:
        first = await opened(cancels, one)
        second = await opened(cancels, one, first.peer)
        second.stream.close()
        frame = await first.peer.frame()
        assert frame == {"type": "response.cancel", "stream_id": second.lane}
        # Its name is free once it has ended, and its socket was so all the time.
        third = await opened(cancels, one, first.peer)
        assert third.lane not in (first.lane, second.lane)
        await first.peer.ended(second.lane, "incomplete")
        await first.says("a")
        await first.have("a")
        await third.finish()
        lanes = {(await opened(cancels, one, first.peer)).lane for _ in range(15)}
        assert second.lane in lanes
        assert len(cancels.peers) == 1


async def test_the_last_one_costs_no_socket(cancels: SocketUpstream) -> None:
    async with client(cancels) as one:
        alone = await opened(cancels, one)
        alone.stream.close()
        assert (await alone.peer.frame())["type"] == "response.cancel"
        await alone.peer.ended(alone.lane, "incomplete")
        await (await opened(cancels, one, alone.peer)).finish()
        assert len(cancels.peers) == 1


async def test_one_that_had_not_begun_is_taken_back(cancels: SocketUpstream) -> None:
    async with client(cancels) as one:
        first = await opened(cancels, one)
        for _ in range(40):  # more often than there are names
            posting, peer, lane = await asked(cancels, one, first.peer)
            posting.cancel()
            assert await peer.frame() == {"type": "response.cancel", "stream_id": lane}
            await peer.error(lane, "cancelled", 499)
        await first.says("a")
        await first.have("a")
        await (await opened(cancels, one, first.peer)).finish()
        assert len(cancels.peers) == 1


async def test_a_socket_without_lanes_is_closed(cancels: SocketUpstream) -> None:
    async with client(cancels, lanes=1) as one:
        alone = await opened(cancels, one)
        alone.stream.close()
        assert await alone.peer.gone() == 1000
        assert [frame["type"] for frame in alone.peer.frames] == ["response.create"]


async def test_any_other_backend_gets_none_and_its_socket_no_more(server: SocketUpstream) -> None:
    async with client(server) as one:
        first = await opened(server, one)
        second = await opened(server, one, first.peer)
        second.stream.close()
        third = await opened(server, one)  # on a socket of its own
        assert third.peer is not first.peer
        await first.says("a")
        await first.have("a")
        # With the last one that somebody wants it closes, and so cancels the other.
        await first.finish()
        assert await first.peer.gone() == 1000
        assert [frame["type"] for frame in first.peer.frames] == ["response.create"] * 2
        await third.finish()


async def test_once_it_has_ended_its_socket_takes_more(server: SocketUpstream) -> None:
    async with client(server) as one:
        first = await opened(server, one)
        second = await opened(server, one, first.peer)
        second.stream.close()
        await first.peer.ended(second.lane)
        await first.says("a")
        await first.have("a")
        await (await opened(server, one, first.peer)).finish()
        assert len(server.peers) == 1


async def test_it_takes_more_where_no_other_socket_may_be(server: SocketUpstream) -> None:
    async with client(server, sockets=1) as one:
        first = await opened(server, one)
        second = await opened(server, one, first.peer)
        second.stream.close()
        await (await opened(server, one, first.peer)).finish()


async def test_a_gateway_behind_ends_its_own_upstream_call(behind: Behind) -> None:
    async with stand() as on:
        other = await talking(on, "b", "still ")
        cancelled = await talking(on, "a", "abc")
        await on.client.cancel(stream_id="a")
        response = (await on.client.until("response.incomplete", lane="a"))[-1]["response"]
        assert response["incomplete_details"] == {"reason": "cancelled"}
        await hung_up(cancelled.exchange, within=SOON)
        await on.turn("a", reply("again"), previous_response_id=response["id"], input="why?")
        await other.finish()
        assert len(behind.inner[0].server_state.connections) == 1
