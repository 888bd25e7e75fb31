"""The bundled engine: quick, private, shared, kept, and gone with whoever ran it."""

from __future__ import annotations

import importlib.util
import logging
import os
import platform
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest
from redis.exceptions import RedisError

from gateway.persistence import redis_client
from gateway.process import embedded_valkey
from gateway.process.embedded_valkey import EmbeddedValkey, EngineFailed
from tests.support.steer_stores import on_file, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steering.redis.guard import RedisClient

ROOT = __file__.rpartition("/tests/")[0]
#: A gateway of which only the engine is there; tells its URL and its engine, then supervises.
GATEWAY = (
    "import anyio, sys\n"
    "from gateway.process.embedded_valkey import EmbeddedValkey\n"
    "engine = EmbeddedValkey(sys.argv[1])\n"
    "print(engine.start(), engine.pid, flush=True)\n"
    "anyio.run(engine.supervise)\n"
)


class Gateway:
    """A process that runs or shares the engine of a state directory."""

    def __init__(self, state: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", GATEWAY, str(state)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.url, self.engine = self.process.stdout.readline().split()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def state(short: Path) -> Path:
    return short / "state"


@pytest.fixture
def engine(state: Path) -> Iterator[EmbeddedValkey]:
    engine = EmbeddedValkey(state)
    yield engine
    engine.stop()


async def answers(client: RedisClient) -> bool:
    try:
        return bool(await client.ping())
    except (RedisError, OSError):
        return False


def listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as peer:
        return peer.connect_ex(path) == 0


async def test_ready_at_once_and_gone_in_the_end(engine: EmbeddedValkey, state: Path) -> None:
    url = engine.start()
    client = redis_client.connect(url)
    assert await client.config_get("appendonly") == {"appendonly": "yes"}
    assert await client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    assert await client.config_get("port") == {"port": "0"}
    await redis_client.close(client)
    path = state / "engine" / "s"
    assert url == f"unix://{path}"
    engine.stop()
    engine.stop()
    assert not listens(str(path))


def test_nobody_else_gets_in(engine: EmbeddedValkey, state: Path) -> None:
    engine.start()
    for path, mode in ((state, 0o700), (state / "engine", 0o700), (state / "engine/s", 0o700)):
        assert path.stat().st_mode & 0o777 == mode


def test_a_directory_that_is_there_already_keeps_its_mode(
    engine: EmbeddedValkey, state: Path
) -> None:
    state.mkdir(mode=0o755)
    (state / "engine").mkdir(mode=0o755)
    engine.start()
    assert state.stat().st_mode & 0o777 == 0o755
    assert (state / "engine").stat().st_mode & 0o777 == 0o700


async def test_what_was_written_is_there_again(state: Path) -> None:
    for n in range(3):
        engine = EmbeddedValkey(state)
        client = redis_client.connect(engine.start())
        assert await client.incr("turns") == n + 1
        await on_file(client)
        await redis_client.close(client)
        if n == 1:
            assert engine.pid is not None
            os.kill(engine.pid, signal.SIGKILL)
        engine.stop()


async def test_the_engine_ends_with_a_killed_gateway(state: Path) -> None:
    gateway = Gateway(state)
    path = gateway.url.removeprefix("unix://")
    assert listens(path)
    gateway.kill()

    async def over() -> bool:
        return not listens(path)

    await until(over)


async def test_two_share_one_and_the_second_takes_over(state: Path) -> None:
    first = Gateway(state)
    second = Gateway(state)
    try:
        assert second.url == first.url
        assert (first.engine == "None", second.engine == "None") == (False, True)
        client = redis_client.connect(first.url)
        await client.set("a", "b")
        await on_file(client)
        process = (await client.info("server"))["process_id"]
        assert str(process) == first.engine
        first.kill()
        await until(lambda: answers(client))
        assert (await client.info("server"))["process_id"] != process
        assert await client.get("a") == b"b"
        await redis_client.close(client)
    finally:
        first.kill()
        second.kill()


async def test_it_is_started_again(
    engine: EmbeddedValkey, caplog: pytest.LogCaptureFixture
) -> None:
    client = redis_client.connect(engine.start())
    await client.set("a", "b")
    await on_file(client)
    async with anyio.create_task_group() as group:
        group.start_soon(engine.supervise)
        for _ in range(2):
            assert engine.pid is not None
            os.kill(engine.pid, signal.SIGKILL)
            await until(lambda: answers(client))
            assert await client.get("a") == b"b"
        group.cancel_scope.cancel()
    await redis_client.close(client)
    errors = [r.message for r in caplog.records if r.levelno == logging.ERROR]
    assert errors == ["the engine died (code -9), starting it again"] * 2


async def test_trouble_to_start_it_again_is_no_end(
    engine: EmbeddedValkey, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = redis_client.connect(engine.start())
    troubles = [OSError("no more processes"), EngineFailed("where is it?")]
    spawn = engine._spawn

    def troubled() -> None:
        if troubles:
            raise troubles.pop()
        spawn()

    monkeypatch.setattr(engine, "_spawn", troubled)
    async with anyio.create_task_group() as group:
        group.start_soon(engine.supervise)
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGKILL)
        await until(lambda: answers(client))
        group.cancel_scope.cancel()
    await redis_client.close(client)
    assert "the engine cannot be started: no more processes" in caplog.messages


async def test_an_engine_that_dies_again_and_again_does_not_fill_the_log(
    engine: EmbeddedValkey, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(embedded_valkey, "WATCH", 0.01)
    monkeypatch.setattr(embedded_valkey, "MAX_PAUSE", 0.08)
    client = redis_client.connect(engine.start())
    spawn = engine._spawn

    def failing() -> None:
        raise EngineFailed("its file is broken")

    def failures() -> int:
        return caplog.messages.count("the engine cannot be started: its file is broken")

    monkeypatch.setattr(engine, "_spawn", failing)
    async with anyio.create_task_group() as group:
        group.start_soon(engine.supervise)
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGKILL)
        await anyio.sleep(0.5)
        assert failures() <= 10
        while failures() < 2:  # noqa: ASYNC110
            await anyio.sleep(0.01)
        monkeypatch.setattr(engine, "_spawn", spawn)
        await until(lambda: answers(client))
        group.cancel_scope.cancel()
    await redis_client.close(client)


def test_a_stale_socket_is_no_hindrance(engine: EmbeddedValkey, state: Path) -> None:
    (state / "engine").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(state / "engine" / "s"))
    engine.start()
    engine.stop()
    engine.start()


def test_an_orphan_is_ended_first(state: Path) -> None:
    """An engine whose gateway is gone but that was not killed yet."""
    first, second = EmbeddedValkey(state), EmbeddedValkey(state)
    first.start()
    assert first._lock is not None
    os.close(first._lock)
    first._lock = None
    assert second.start() is not None
    assert first._child is not None
    assert first._child.returncode is not None or first._child.stop() == 0
    assert second.pid is not None
    second.stop()
    first.stop()


def test_a_long_path_has_a_short_socket(short: Path) -> None:
    long = short / ("x" * 120) / "state"
    first, second = EmbeddedValkey(long), EmbeddedValkey(long)
    try:
        url = first.start()
        path = Path(url.removeprefix("unix://"))
        assert len(os.fsencode(path)) < 104
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert second.start() == url
        assert second.pid is None
    finally:
        second.stop()
        first.stop()
    path.unlink(missing_ok=True)
    path.parent.rmdir()


def test_a_path_is_quoted(short: Path) -> None:
    engine = EmbeddedValkey(short / "a b?#%é")
    try:
        client = redis_client.connect(engine.start())
        assert client.connection_pool.connection_kwargs["path"] == str(  # type: ignore[union-attr]
            short / "a b?#%é/engine/s"
        )
    finally:
        engine.stop()


def test_a_directory_that_cannot_be_used(short: Path) -> None:
    (short / "file").write_text("")
    with pytest.raises(EngineFailed, match=r"^cannot use .*: Not a directory$"):
        EmbeddedValkey(short / "file" / "state").start()
    (short / "state").mkdir()
    (short / "state" / "engine").symlink_to(short)
    with pytest.raises(EngineFailed, match=r"^cannot use .*another user's, or no directory$"):
        EmbeddedValkey(short / "state").start()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_directory_of_root_names_both(short: Path) -> None:
    code = (
        "import os, sys\n"
        "from gateway.process.embedded_valkey import EmbeddedValkey\n"
        "os.setresgid(10001, 10001, 10001); os.setresuid(10001, 10001, 10001)\n"
        "EmbeddedValkey(sys.argv[1]).start()"
    )
    short.chmod(0o755)
    state = short / "state"
    for made in (state, state / "engine"):  # a mounted directory, and one that root has used
        made.mkdir(mode=0o755)
        ran = subprocess.run(
            [sys.executable, "-c", code, str(state)], capture_output=True, text=True, check=False
        )
        line = ran.stderr.splitlines()[-1]
        assert "EngineFailed: cannot use " in line
        whose = f"; {made} is of uid 0, the gateway runs as 10001: chown 10001:10001 {made}"
        assert line.endswith(whose)


def test_an_engine_that_cannot_start(state: Path) -> None:
    (state / "engine").mkdir(parents=True)
    (state / "engine" / "appendonlydir").write_text("in the way")
    with pytest.raises(EngineFailed, match=r"^the bundled engine ended early: .+$"):
        EmbeddedValkey(state).start()


def test_no_engine_for_this_system(monkeypatch: pytest.MonkeyPatch, state: Path) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(EngineFailed, match=r"riscv64: use --redis-url .*, or --redis-url memory$"):
        EmbeddedValkey(state).start()
    monkeypatch.undo()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EngineFailed, match="no bundled engine"):
        EmbeddedValkey(state).start()
