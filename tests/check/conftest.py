"""A place where nothing listens, and the rehearsal backend."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from gateway.process.children import spawn
from tests.support.upstream import ScriptedUpstream, upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture
async def free() -> AsyncIterator[ScriptedUpstream]:
    """An upstream that takes no connections."""
    async with upstream() as fake:
        fake.refuse()
        yield fake


@pytest.fixture(scope="session")
def rehearsal() -> Iterator[str]:
    """The base URL of a rehearsal that says 200 words a second."""
    child = spawn([sys.executable, "-m", "gateway", "rehearse", "--port", "0", "--rate", "200"])
    try:
        yield child.ready("ready ", 15)
    finally:
        child.stop()
