"""A scripted backend on a WebSocket; retries that do not wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.websocket_upstream import SocketUpstream, running
from tests.upstream.websocket.behind import Behind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.upstream.transport.retries._FIRST_BACKOFF", 0.001)


@pytest.fixture
async def server() -> AsyncIterator[SocketUpstream]:
    async with running() as one:
        yield one


@pytest.fixture(params=["gateway", "native"])
def behind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Behind:
    """All stands of the test are behind one more gateway, with either kind of steering."""
    made = Behind(request.param)
    made.install(monkeypatch)
    return made
