"""Engines to share and engines to maltreat, and places to keep submissions in."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.redis_engine import Engine
from tests.support.steer_stores import RedisPlace, StorePlace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

KINDS = ("valkey", "redis")


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory with a short path, for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="ml", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


async def _engine(kind: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    engine = Engine(kind, tmp_path_factory.mktemp("engine"))
    await engine.start()
    yield engine
    engine.kill()


@pytest.fixture(scope="package")
async def valkey(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    """The bundled engine, for tests that leave it as it was."""
    async for engine in _engine("valkey", tmp_path_factory):
        yield engine


@pytest.fixture(scope="package")
async def redis_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    """A real redis-server, for tests that leave it as it was."""
    async for engine in _engine("redis", tmp_path_factory):
        yield engine


@pytest.fixture(scope="module", params=("memory", *KINDS))
async def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Engine | None]:
    """An engine of each kind for the tests of one file, or None for the memory."""
    if request.param == "memory":
        yield None
        return
    async for engine in _engine(request.param, tmp_path_factory):
        yield engine


@pytest.fixture(params=("memory", *KINDS))
def place(request: pytest.FixtureRequest) -> StorePlace:
    """A place of each kind."""
    if request.param == "memory":
        return StorePlace()
    chosen: StorePlace = request.getfixturevalue(f"{request.param}_place")
    return chosen


@pytest.fixture
async def valkey_place(valkey: Engine) -> AsyncIterator[RedisPlace]:
    """A place in the bundled engine."""
    async with RedisPlace(valkey) as place:
        yield place


@pytest.fixture
async def redis_place(redis_server: Engine) -> AsyncIterator[RedisPlace]:
    """A place in a real redis-server."""
    async with RedisPlace(redis_server) as place:
        yield place


@pytest.fixture(params=KINDS)
def kept(request: pytest.FixtureRequest) -> RedisPlace:
    """A place in an engine of each kind."""
    chosen: RedisPlace = request.getfixturevalue(f"{request.param}_place")
    return chosen


@pytest.fixture(params=KINDS)
async def victim(request: pytest.FixtureRequest, short: Path) -> AsyncIterator[Engine]:
    """An engine of each kind for one test to maltreat."""
    engine = Engine(request.param, short)
    await engine.start()
    yield engine
    engine.kill()


@pytest.fixture
async def hurt(victim: Engine) -> AsyncIterator[RedisPlace]:
    """A place in the engine that the test maltreats."""
    async with RedisPlace(victim) as place:
        yield place
