"""A part of the history that a backend refuses over a socket is left out, asked once more (D23)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gateway.config.settings import Settings
from tests.cases.test_refused_history import CODED, HISTORY, WORDS
from tests.support.client import connect
from tests.support.gateway import running

if TYPE_CHECKING:
    from tests.support.websocket_upstream import SocketUpstream

FAILED = {"id": "r", "status": "failed", "error": {"code": "invalid_prompt", "message": WORDS}}
ERRORS: list[dict[str, Any]] = [
    {"type": "error", "status": 400, "error": {**CODED, "message": "no"}},
    {"type": "error", "status": 400, "error": {"message": WORDS}},
    {"type": "error", "error": {"message": WORDS}},
    {"type": "error", "message": "Item with id 'rs_1' not found."},
    {"type": "response.failed", "response": FAILED},
]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("dialect", ["openai", "xai"])
async def test_it_is_asked_once_more(
    server: SocketUpstream, error: dict[str, Any], dialect: str
) -> None:
    settings = Settings(
        upstream=server.url, dialect=dialect, upstream_transport="websocket", retries=0
    )
    async with running(settings) as url, connect(url) as client:
        await client.create("a", input=HISTORY)
        peer = await server.accept()
        lane = await peer.asked()
        assert "gAAA" in str(peer.frames[-1])
        await peer.say(error["type"], lane, **{key: error[key] for key in error if key != "type"})
        lane = await peer.asked()
        assert "gAAA" not in str(peer.frames[-1])
        await peer.created(lane)
        await peer.ended(lane)
        assert (await client.ended("a"))["status"] == "completed"
