"""A scripted server, and a client that speaks to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gateway.upstream.http import HttpClient
from tests.upstream.server import Server, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with running() as one:
        yield one


@pytest.fixture
async def client(server: Server) -> AsyncIterator[HttpClient]:
    one = HttpClient(server.url, proxies={})
    yield one
    await one.aclose()
