"""Each program does with one client what its users do, over the socket and over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest
from anyio import to_thread

from tests.clients.installed import NODE, PYTHON, NotHere, node_command, python_command

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]


async def _passes(command: Callable[[str], list[str]], name: str, *arguments: str) -> None:
    try:
        program = await to_thread.run_sync(command, name)
    except NotHere as missing:
        pytest.skip(str(missing))
    with anyio.fail_after(240):
        done = await anyio.run_process([*program, *arguments], check=False)
    said = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == 0, said[-6000:]
    assert done.stdout.decode().rstrip().endswith("all is well"), said[-6000:]


@pytest.mark.parametrize("name", PYTHON)
async def test_a_python_client(name: str, gateway_url: str) -> None:
    await _passes(python_command, name, gateway_url)


@pytest.mark.parametrize("name", [name for name in NODE if name != "codex"])
async def test_a_node_client(name: str, gateway_url: str) -> None:
    await _passes(node_command, name, gateway_url)
