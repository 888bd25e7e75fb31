"""The bundled engine dies or hangs under a running gateway (B72)."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from tests.support.client import connect
from tests.support.gateway_stand import Stand
from tests.support.hang_guard import HANG
from tests.support.serve_process import Process, process
from tests.support.steered import Running, talking

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="finds the engine in /proc"),
]


def engine(own: Process) -> int:
    """The engine's process: the gateway's child of that name."""
    gateway = own.child.pid
    children = Path(f"/proc/{gateway}/task/{gateway}/children").read_text("ascii").split()
    names = {pid: Path(f"/proc/{pid}/cmdline").read_text("utf-8") for pid in children}
    [pid] = [pid for pid, name in names.items() if "valkey-server" in name]
    return int(pid)


async def recovered(running: Running) -> None:
    """Steering works again without a restart; what failed before did the response no harm."""
    with anyio.fail_after(HANG):
        while True:
            await running.client.steer(running.id, "again")
            kinds = ("response.steer.accepted", "response.steer.failed")
            [*_, event] = await running.client.until(*kinds, lane=running.lane)
            if event["type"] == kinds[0]:
                break
            await running.says("x")
    await running.ended("steered")
    successor = await running.follows()
    await successor.finish()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_streams_go_on_and_steering_comes_back(how: signal.Signals, tmp_path: Path) -> None:
    options = ("--state-dir", str(tmp_path / "state"), "--model", "m")
    async with process(tmp_path, *options) as own, connect(own.url) as client:
        on = Stand(own.fake, client, own.url, [])
        running, other = await talking(on, "a"), await talking(on, "b")
        pid = engine(own)
        os.kill(pid, how)
        try:
            await other.says("d", "e")
            with anyio.fail_after(HANG):
                error = await running.refused() if how is signal.SIGSTOP else None
            assert error is None or error["code"] == "steering_unavailable"
            await running.says("f")
        finally:
            if how is signal.SIGSTOP:
                os.kill(pid, signal.SIGCONT)
        await recovered(running)
        await other.says("g")
