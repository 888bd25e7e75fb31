"""The command as the tests call it."""

from __future__ import annotations

import json
from typing import Any

from anyio import fail_after, to_thread
from click.testing import CliRunner, Result

from gateway.tools.load.command import load
from tests.load.stub import Stub, running
from tests.support.hang_guard import HANG

SMALL = ["--connections", "2", "--lanes", "3", "--responses", "3", "--timeout", "5"]


async def run(stub: Stub, *options: str, env: dict[str, str] | None = None) -> Result:
    """Run the command against the stub."""
    async with running(stub) as url:
        return await invoke(url, *options, env=env)


async def invoke(url: str, *options: str, env: dict[str, str] | None = None) -> Result:
    """Run the command in a thread, beside the loop that serves it."""

    def call() -> Result:
        return CliRunner().invoke(load, [url, *SMALL, *options], env=env, catch_exceptions=False)

    with fail_after(HANG):
        return await to_thread.run_sync(call)


async def numbers(stub: Stub, *options: str) -> tuple[int, dict[str, Any]]:
    """Run it with --json: exit code and numbers."""
    result = await run(stub, "--json", *options)
    found: dict[str, Any] = json.loads(result.stdout)
    return result.exit_code, found
