"""A backend that knows no lanes: one response at a time on a socket, and nothing names it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from gateway.config.upstream_settings import UpstreamSettings
from gateway.upstream.backend import Backend
from gateway.upstream.dialect import find
from lanes.errors import UpstreamFault
from tests.support.websocket_upstream import asked, client, opened
from tests.upstream.websocket.test_native_steering import Steered

if TYPE_CHECKING:
    from tests.support.websocket_upstream import SocketUpstream


@pytest.mark.parametrize(("name", "lanes"), [("openai", 16), ("azure", 1), ("xai", 1), ("vllm", 0)])
def test_who_knows_them(name: str, lanes: int) -> None:
    assert find(name).websocket_lanes == lanes


async def test_what_auto_finds_may_speak_no_websocket() -> None:
    """It is known by its host, so nothing is asked."""
    where = {"name": "a", "url": "https://api.groq.com/openai/v1", "dialect": "auto"}
    backend = Backend(UpstreamSettings(**where, transport="websocket"))
    with pytest.raises(UpstreamFault, match="dialect groq do not speak over WebSocket") as caught:
        await backend.open({"model": "m"}, [], {})
    assert caught.value.status == 502
    await backend.aclose()


async def test_whoever_is_reached_by_websocket_speaks_the_references_dialect(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Another Multilane, say: there is nothing to ask by HTTP."""
    caplog.set_level(logging.INFO, logger="multilane")
    where = {"name": "a", "url": "http://127.0.0.1:1/v1", "dialect": "auto"}
    backend = Backend(UpstreamSettings(**where, transport="websocket"))
    await backend.prepare(None)
    assert caplog.messages == ["upstream a: dialect openai (it is reached by WebSocket)"]
    await backend.aclose()


async def test_each_response_has_its_socket(server: SocketUpstream) -> None:
    async with client(server, lanes=1) as one:
        first = await opened(server, one)
        second = await opened(server, one)
        assert first.peer is not second.peer
        assert "stream_id" not in first.peer.frames[0]
        for each in (first, second):
            await each.says("a", "b")
            await each.have("a", "b")
            await each.finish()
        again = await opened(server, one, first.peer)
        await again.says("c")
        await again.have("c")
        await again.finish()
        assert len(server.peers) == 2


async def test_a_cut_closes_the_socket(server: SocketUpstream) -> None:
    async with client(server, lanes=1) as one:
        running = await opened(server, one)
        running.stream.close()
        assert await running.peer.gone() == 1000


async def test_its_errors_name_no_lane(server: SocketUpstream) -> None:
    async with client(server, lanes=1) as one:
        posting, peer, _ = await asked(server, one)
        await peer.error(None, "invalid_prompt", 422)
        with pytest.raises(UpstreamFault, match="it is invalid_prompt"):
            await posting
        running = await opened(server, one, peer)
        await peer.error(None, "server_error", 500)
        await running.over()
        assert running.events[-1]["type"] == "error"
        assert await peer.gone() == 1000


async def test_the_age_limit(server: SocketUpstream) -> None:
    """Before the response begins it goes elsewhere; after that it may end where it is."""
    async with client(server, lanes=1) as one:
        running = await opened(server, one)
        await running.peer.error(None, "websocket_connection_limit_reached")
        await running.says("on")
        await running.have("on")
        await running.finish()
        assert await running.peer.gone() == 1000
        posting, old, _ = await asked(server, one)
        await old.error(None, "websocket_connection_limit_reached")
        new = await server.accept()
        await new.created(await new.asked())
        (await posting).close()
        assert await old.gone() == 1000


async def test_an_event_that_is_too_large(server: SocketUpstream) -> None:
    async with client(server, lanes=1, max_event=3000) as one:
        running = await opened(server, one)
        await running.says("x" * 4000)
        with pytest.raises(UpstreamFault, match="an event of more than 3000 bytes"):
            await running.over()


async def test_steers_that_it_does_not_know(server: SocketUpstream) -> None:
    async with client(server, lanes=1, native=True) as one:
        first = Steered(await opened(server, one))
        await first.sent("a")
        await first.peer.error(None, "invalid_value", param="type")
        await first.heard()
        assert first.refused == ["a"]
        await first.running.finish()
