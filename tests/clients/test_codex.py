"""Codex CLI on both transports: shell calls, a restart in mid-turn, and the fallback to HTTP."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio import to_thread

from gateway.process.children import spawn
from tests.clients.installed import NotHere, node_command

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from anyio.abc import ByteReceiveStream

    from gateway.process.children import Child

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]

CONFIG = """
model = "rehearse"
model_provider = "multilane"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.multilane]
name = "{name}"
base_url = "{url}"
wire_api = "responses"
supports_websockets = {websockets}
"""
#: More than a turn begins with, less than 800 numbers more.
COMPACT = "model_context_window = 20000\nmodel_auto_compact_token_limit = 3700"
#: Ends once the test says so.
WAIT = "until [ -e go ]; do sleep 0.1; done; echo waited"


class Codex:
    """A turn of Codex on its way, as the lines it prints."""

    def __init__(self, lines: ByteReceiveStream) -> None:
        self._lines = lines
        self._left = b""
        self.events: list[dict[str, Any]] = []

    async def until(self, *said: str) -> None:
        """Read until a line has all of these texts."""
        while True:
            line, found, rest = self._left.partition(b"\n")
            if not found:
                self._left += await self._lines.receive()
                continue
            self._left = rest
            self.events.append(json.loads(line))
            if all(text.encode() in line for text in said):
                return

    @property
    def ran(self) -> list[str]:
        """What the commands printed, in order."""
        items = [one["item"] for one in self.events if one["type"] == "item.completed"]
        return [one["aggregated_output"] for one in items if one["type"] == "command_execution"]


@asynccontextmanager
async def _codex(
    home: Path,
    url: str,
    websockets: str,
    *shell: str,
    again: bool = False,
    more: str = "",
    name: str = "Multilane",
) -> AsyncIterator[Codex]:
    """Run one turn that carries out the commands one by one; `again` in the session before it."""
    try:
        command = await to_thread.run_sync(node_command, "codex")
    except NotHere as missing:
        pytest.skip(str(missing))
    work = home / "work"
    work.mkdir(exist_ok=True)
    (home / "config.toml").write_text(
        more + CONFIG.format(url=url, websockets=websockets, name=name)
    )
    calls = [f"call exec_command with {json.dumps({'cmd': one})}" for one in shell]
    session = ["resume", "--last"] if again else []
    arguments = [
        "exec",
        *session,
        "--skip-git-repo-check",
        "--json",
        "\n".join(["Do this.", *calls]),
    ]
    environment = {**os.environ, "CODEX_HOME": str(home)}
    with anyio.fail_after(240):
        async with await anyio.open_process(
            [*command, *arguments], cwd=work, env=environment, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            await process.stdin.aclose()
            try:
                yield Codex(process.stdout)
            finally:
                if process.returncode is None:
                    process.terminate()


@pytest.fixture
def port() -> int:
    """A port on which gateways come and go."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found: int = listener.getsockname()[1]
        return found


async def _gateway(upstream: str, port: int) -> Child:
    """Serve on the port, as a process of its own."""
    options = ["--port", str(port), "--upstream", upstream, "--redis-url", "memory"]
    child = spawn([sys.executable, "-m", "gateway", "serve", *options])
    with anyio.fail_after(60):
        while True:
            try:
                stream = await anyio.connect_tcp("127.0.0.1", port)
            except OSError:
                await anyio.sleep(0.05)
            else:
                await stream.aclose()
                return child


@pytest.mark.parametrize("websockets", ["true", "false"])
async def test_shell_calls(gateway_url: str, websockets: str, tmp_path: Path) -> None:
    shell = ("echo one > one.txt", "cat one.txt", "wc -c < one.txt")
    async with _codex(tmp_path, gateway_url, websockets, *shell) as codex:
        await codex.until('"turn.completed"')
    assert codex.ran == ["", "one\n", "4\n"]
    assert not [one for one in codex.events if one["type"] in ("error", "turn.failed")]


@pytest.mark.parametrize("websockets", ["true", "false"])
async def test_a_restart_in_mid_turn(
    scripted_url: str, port: int, websockets: str, tmp_path: Path
) -> None:
    gateway = await _gateway(scripted_url, port)
    try:
        async with _codex(
            tmp_path, f"http://127.0.0.1:{port}/v1", websockets, WAIT, "echo two"
        ) as codex:
            await codex.until('"item.started"', "waited")
            await to_thread.run_sync(gateway.stop)
            gateway = await _gateway(scripted_url, port)
            (tmp_path / "work" / "go").touch()
            await codex.until('"turn.completed"')
    finally:
        await to_thread.run_sync(gateway.stop)
    assert codex.ran == ["waited\n", "two\n"]


@pytest.mark.parametrize("websockets", ["true", "false"])
async def test_three_compactions(gateway_url: str, websockets: str, tmp_path: Path) -> None:
    """Its own: it asks the model for a summary, and goes on with that."""
    for again in (False, True, True):
        async with _codex(
            tmp_path, gateway_url, websockets, "seq 1 800", "echo two", again=again, more=COMPACT
        ) as codex:
            await codex.until('"turn.completed"')
        assert not [one for one in codex.events if one["type"] in ("error", "turn.failed")]
        assert "produced a summary" in codex.events[-2]["item"]["text"]
    [session] = (tmp_path / "sessions").rglob("*.jsonl")
    assert session.read_text("utf-8").count('"type":"compacted"') == 3


@pytest.mark.parametrize("websockets", ["true", "false"])
async def test_it_leaves_compaction_to_the_gateway(
    gateway_url: str, websockets: str, tmp_path: Path
) -> None:
    """Under the name of OpenAI it asks for a compaction item, and sends that from then on."""
    for again in (False, True, True):
        async with _codex(
            tmp_path,
            gateway_url,
            websockets,
            "seq 1 800",
            "echo two",
            again=again,
            more=COMPACT,
            name="OpenAI",
        ) as codex:
            await codex.until('"turn.completed"')
        assert not [one for one in codex.events if one["type"] in ("error", "turn.failed")]
        assert "earlier part of this conversation" in codex.events[-2]["item"]["text"]
    [session] = (tmp_path / "sessions").rglob("*.jsonl")
    text = session.read_text("utf-8")
    assert text.count('"type":"compacted"') == 3
    assert text.count('"encrypted_content":"ml1.') >= 3


async def test_it_falls_back_to_http_and_goes_on(
    scripted_url: str, port: int, tmp_path: Path
) -> None:
    gateway = await _gateway(scripted_url, port)
    try:
        async with _codex(
            tmp_path, f"http://127.0.0.1:{port}/v1", "true", WAIT, "echo two"
        ) as codex:
            await codex.until('"item.started"', "waited")
            os.kill(gateway.pid, signal.SIGKILL)
            await to_thread.run_sync(gateway.stop)
            (tmp_path / "work" / "go").touch()
            await codex.until("Falling back from WebSockets")
            gateway = await _gateway(scripted_url, port)
            await codex.until('"turn.completed"')
    finally:
        await to_thread.run_sync(gateway.stop)
    assert codex.ran == ["waited\n", "two\n"]
