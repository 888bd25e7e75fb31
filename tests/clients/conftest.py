"""A gateway in front of the scripted backend."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from gateway.config.settings import Settings
from gateway.process.children import spawn
from tests.support.gateway import running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture(scope="session")
def scripted_url() -> Iterator[str]:
    """The scripted backend, slow enough that answers can be interrupted."""
    child = spawn([sys.executable, "-m", "gateway", "rehearse", "--port", "0", "--rate", "200"])
    yield child.ready("ready ", 60)
    child.stop()


@pytest.fixture
async def gateway_url(scripted_url: str) -> AsyncIterator[str]:
    async with running(Settings(upstream=scripted_url)) as url:
        yield url
