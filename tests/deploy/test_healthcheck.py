"""The image's health check finds the port that is set, and says whether the gateway is ready."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import sys
from typing import TYPE_CHECKING

import anyio
import pytest
from anyio import to_thread

from gateway.config.settings import Settings
from gateway.process.children import spawn
from tests.deploy.compose import DEPLOY
from tests.deploy.test_files import dockerfile
from tests.support.gateway import serving
from tests.support.hang_guard import HANG
from tests.upstream.conftest import certificate

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["certificate"]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads Linux's /proc")


async def healthy(pid: int) -> bool:
    """What the image's check says of a process, which is 1 in a container."""
    found = re.search(r"^HEALTHCHECK .*CMD (\[.+\])$", dockerfile(), re.MULTILINE)
    assert found is not None
    _, *options, path = json.loads(found[1])
    assert path == "/opt/multilane/healthcheck.py"
    assert f"COPY deploy/healthcheck.py {path}" in dockerfile()
    words = [sys.executable, *options, str(DEPLOY / "healthcheck.py"), str(pid)]
    ran = await anyio.run_process(words, check=False)
    assert ran.stderr == b""
    return ran.returncode == 0


async def becomes_healthy(pid: int) -> None:
    """It is soon; a busy machine may take more than the second that the check gives a port."""
    with anyio.fail_after(HANG):
        while not await healthy(pid):  # noqa: ASYNC110  (another process; no event)
            await anyio.sleep(0.05)


async def test_it_is_unhealthy_while_it_drains() -> None:
    async with serving(Settings(upstream="http://127.0.0.1:9/v1", dialect="openai")) as (server, _):
        await becomes_healthy(os.getpid())
        # Another port of the process, such as one for metrics, does not hide it.
        with socket.create_server(("127.0.0.1", 0)) as silent:
            assert silent.getsockname()[1] > 0
            await becomes_healthy(os.getpid())
            server.gateway.census.draining = True
            assert not await healthy(os.getpid())


async def test_it_follows_a_certificate(certificate: Path) -> None:
    settings = Settings(
        upstream="http://127.0.0.1:9/v1", dialect="openai", tls_cert=str(certificate)
    )
    async with serving(settings) as (server, _):
        assert await healthy(os.getpid())
        server.gateway.census.draining = True
        assert not await healthy(os.getpid())


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0", "::"])
async def test_it_finds_a_port_that_a_file_sets(tmp_path: Path, host: str) -> None:
    if ":" in host and not socket.has_ipv6:
        pytest.skip("there is no IPv6")
    config = tmp_path / "multilane.toml"
    config.write_text(
        f'host = "{host}"\nport = 0\nredis_url = "memory"\nallow_open = true\n'
        'upstream = "http://127.0.0.1:9/v1"\ndialect = "openai"\n'
    )
    # As with `docker run --init`, it is not the first process itself.
    command = f"{sys.executable} -m multilane serve --config {config} 2>&1 & wait"
    first = spawn(["/bin/sh", "-c", command])
    try:
        await to_thread.run_sync(first.ready, "", 60)
        await becomes_healthy(first.pid)
    finally:
        await to_thread.run_sync(first.stop)


async def test_it_asks_a_server_without_readiness_for_its_health() -> None:
    backend = spawn([sys.executable, "-m", "multilane", "rehearse", "--port", "0"])
    try:
        await to_thread.run_sync(backend.ready, "ready ", 60)
        await becomes_healthy(backend.pid)
    finally:
        await to_thread.run_sync(backend.stop)


@pytest.mark.parametrize(("status", "expected"), [(200, True), (503, False)])
async def test_it_asks_by_tls_where_that_is_spoken(
    certificate: Path, status: int, expected: bool
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def answer(listener: socket.socket) -> None:
        with listener.accept()[0] as plain, pytest.raises(ssl.SSLError):
            context.wrap_socket(plain, server_side=True).close()  # it asks in plain text first
        with context.wrap_socket(listener.accept()[0], server_side=True) as wire:
            assert wire.recv(100).startswith(b"GET /ready?exclude=store ")
            wire.sendall(b"HTTP/1.0 %d That\r\n\r\n" % status)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(to_thread.run_sync, answer, listener)
            assert await healthy(os.getpid()) is expected
