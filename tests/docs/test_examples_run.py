"""The programs in examples/ run against the gateway and its scripted backend."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING

import anyio
import pytest
from anyio.streams.text import TextReceiveStream

from tests.support.hang_guard import HANG

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anyio.abc import Process

EXAMPLES = Path(__file__).parents[2] / "examples"
LONGEST = 60  # lines of code


class Program:
    """An example on its way, and all that it has printed."""

    def __init__(self, process: Process) -> None:
        assert process.stdout is not None
        self.process = process
        self.printed = ""
        self._output = TextReceiveStream(process.stdout)

    async def type(self, line: str) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send(f"{line}\n".encode())

    async def until(self, text: str) -> None:
        while text not in self.printed:
            self.printed += await self._output.receive()

    async def rest(self) -> str:
        """What it prints until its end, which is a good one; all of it."""
        assert self.process.stdin is not None
        await self.process.stdin.aclose()
        async for text in self._output:
            self.printed += text
        assert await self.process.wait() == 0
        return self.printed


async def started(name: str, base_url: str) -> Program:
    environment = {**os.environ, "OPENAI_BASE_URL": base_url, "PYTHONUNBUFFERED": "1"}
    command: Sequence[str] = [sys.executable, str(EXAMPLES / f"{name}.py")]
    return Program(await anyio.open_process(command, env=environment, stdin=PIPE, stderr=None))


async def test_lanes(base_url: str) -> None:
    with anyio.fail_after(HANG):
        printed = await (await started("lanes", base_url)).rest()
    deltas = re.findall(r"^ *(\w+) \| ", printed, re.MULTILINE)
    assert set(deltas) == {"plan", "research", "critic"}
    both = deltas[: deltas.index("critic")]
    assert both != sorted(both)  # the two were written at the same time
    assert both != sorted(both, reverse=True)
    critic = printed[printed.index("\ncritic: ") :]
    assert 'Earlier you said: "My name is Ada.' in critic


async def test_steering(base_url: str) -> None:
    with anyio.fail_after(HANG):
        chat = await started("steering", base_url)
        await chat.type("Tell me about whales in 500 words")
        await chat.until("whales")
        await chat.type("No, ants, in 10 words")
        await chat.until("[response.completed]")
        await chat.type("Thanks, in 8 words")
        printed = await chat.rest()
    before, _, after = printed.partition("[steered]")
    assert "End of rehearsal" not in before
    assert "ants" in after
    assert printed.count("[response.completed]") == 2


async def test_an_agent_framework(base_url: str) -> None:
    with anyio.fail_after(HANG):
        printed = await (await started("agent_framework", base_url)).rest()
    assert re.search(r"\[weather\(\w+\)\]", printed)
    assert 'The tool answered "It is sunny in' in printed
    assert 'Earlier you said: "Use the tool:' in printed


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_they_are_small_and_listed(path: Path) -> None:
    text = path.read_text("utf-8")
    assert len([line for line in text.splitlines() if line.strip()]) <= LONGEST
    assert f"python examples/{path.name}\n" in text
    assert f"({path.name})" in (EXAMPLES / "README.md").read_text("utf-8")
