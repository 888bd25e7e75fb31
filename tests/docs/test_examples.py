"""README's lines of Python do what it says, against the scripted backend."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

import anyio

from tests.support.hang_guard import HANG

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
LANES, FORK, STEER, BECAME = map(
    textwrap.dedent, re.findall(r"```python\n(.*?)```", README, re.DOTALL)
)


async def run(code: str, base_url: str) -> str:
    """Run it in a process of its own; returns what it prints."""
    code = code.replace("http://127.0.0.1:8080/v1", base_url)
    with anyio.fail_after(HANG):
        done = await anyio.run_process([sys.executable, "-c", code], check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


async def test_the_lanes_and_the_fork(base_url: str) -> None:
    said = await run(LANES + textwrap.indent(FORK, "    "), base_url)
    assert {line.split(" ", 1)[0] for line in said.splitlines()} >= {"plan", "research", "critic"}
    assert 'You said "Who am I?". Earlier you said: "My name is Ada.".' in said


async def test_the_steer_and_what_became_of_it(base_url: str) -> None:
    # Long enough to be steered where this machine has more to do.
    code = f"{STEER}{BECAME}became_of(first.id)\n".replace("in 60 words", "in 900 words")
    lines = (await run(code, base_url)).splitlines()
    assert "[incomplete]" in lines
    assert "ants" in lines[-3]
    assert lines[-2] == "[completed]"
    assert re.fullmatch(r"steer_[0-9a-f]{32} committed resp_[0-9a-f]{32} None", lines[-1])
