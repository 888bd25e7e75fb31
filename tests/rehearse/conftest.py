"""Rehearsals as a child process each, as the command runs them."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx2
import pytest

from tests.support.hang_guard import HANG
from tests.support.rehearsal import Rehearsal

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def raised(rate: float) -> Iterator[Rehearsal]:
    program = f"from gateway.tools.rehearse.server import serve; serve('127.0.0.1', 0, {rate})"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        ready, url = child.stdout.readline().decode().split()
        assert ready == "ready"
        with httpx2.Client(base_url=url, timeout=HANG) as http:
            yield Rehearsal(url, http, child.pid)
        child.terminate()
        said, logged = child.communicate(timeout=HANG)
        assert child.returncode == 0
        assert said == b""
        assert b"Traceback" not in logged
        assert b" INFO multilane.rehearse: multilane-rehearse on 127.0.0.1:" in logged
        assert b"a scripted backend for trying and testing" in logged


@pytest.fixture(scope="session")
def stand() -> Iterator[Rehearsal]:
    """One that talks as fast as it can."""
    with raised(0) as one:
        yield one


@pytest.fixture(scope="session")
def slow() -> Iterator[Rehearsal]:
    """One that says 20 words a second."""
    with raised(20) as one:
        yield one
