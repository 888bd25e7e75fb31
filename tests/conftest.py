"""What every suite shares: the event loop async tests run on, and hypothesis' profiles."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# CI derandomizes: a red build there is a bug in the commit, never luck. Deadlines are off, as the
# suite shares two cores with the processes it starts; pytest-timeout is the hang guard.
settings.register_profile("local", deadline=None)
settings.register_profile(
    "ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The loop the gateway runs on. Session scope lets async fixtures have any scope."""
    return ("asyncio", {"use_uvloop": True})
