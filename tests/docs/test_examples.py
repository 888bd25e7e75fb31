"""README's lines of Python do what it says, against the scripted backend."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

import anyio
from anyio import to_thread

from gateway.children import spawn
from gateway.settings import Settings
from tests.fakes.gateway import running

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


async def test_the_lanes_and_the_fork() -> None:
    first, fork = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    command = [sys.executable, "-m", "gateway", "rehearse", "--port", "0", "--rate", "200"]
    child = spawn(command)
    try:
        url = await to_thread.run_sync(child.ready, "ready ", 15)
        async with running(Settings(upstream=url, model="rehearse")) as own:
            code = textwrap.dedent(first).replace("http://127.0.0.1:8080/v1", own) + fork
            with anyio.fail_after(15):
                done = await anyio.run_process([sys.executable, "-c", code], check=False)
    finally:
        await to_thread.run_sync(child.stop)
    assert done.returncode == 0, done.stderr.decode()
    said = done.stdout.decode()
    assert {line.split(" ", 1)[0] for line in said.splitlines()} >= {"plan", "research", "critic"}
    assert 'You said "Who am I?". Earlier you said: "My name is Ada.".' in said
