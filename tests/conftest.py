"""What every suite shares: the event loop of async tests, hypothesis' profiles, parallel runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Generator

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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the number of processes for `--numprocesses auto`: tests wait more than they work."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Write lone surrogates in a report as escapes: a process cannot hand them to another one."""
    return _escaped((yield))


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_escaped(key): _escaped(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_escaped(one) for one in value]
    return value
