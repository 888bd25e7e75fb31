"""A gateway in front of the scripted backend."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from anyio import to_thread

from gateway.config.settings import Settings
from gateway.process.children import spawn
from tests.support.gateway import running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def base_url() -> AsyncIterator[str]:
    command = [sys.executable, "-m", "gateway", "rehearse", "--port", "0", "--rate", "100"]
    child = spawn(command)
    try:
        url = await to_thread.run_sync(child.ready, "ready ", 15)
        async with running(Settings(upstream=url, model="rehearse")) as own:
            yield own
    finally:
        await to_thread.run_sync(child.stop)
