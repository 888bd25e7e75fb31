"""README's lines of Python do what it says, against the scripted backend."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

import anyio
import pytest

from tests.support.hang_guard import HANG

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
LANES, FORK, STEER, BECAME = map(
    textwrap.dedent, re.findall(r"```python\n(.*?)```", README, re.DOTALL)
)


#: What the scripted backend does at a phrase in the input, and how the response ends then.
UNHAPPY = {
    "fail midway": "response.failed",
    "fail 400": "error",
    "cut midway": "response.failed",
}


async def ran(code: str, base_url: str) -> tuple[int, str, str]:
    """Run it in a process of its own; returns its code and what it prints, errors apart."""
    code = code.replace("http://127.0.0.1:8080/v1", base_url)
    with anyio.fail_after(HANG):
        done = await anyio.run_process([sys.executable, "-c", code], check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


async def run(code: str, base_url: str) -> str:
    """Run it to a good end; returns what it prints."""
    status, printed, errors = await ran(code, base_url)
    assert status == 0, errors
    return printed


async def test_the_lanes_and_the_fork(base_url: str) -> None:
    said = await run(LANES + textwrap.indent(FORK, "    "), base_url)
    assert {line.split(" ", 1)[0] for line in said.splitlines()} >= {"plan", "research", "critic"}
    assert 'You said "Who am I?". Earlier you said: "My name is Ada.".' in said


async def test_the_steer_and_what_became_of_it(base_url: str) -> None:
    # Long enough to be steered where this machine has more to do.
    code = f"{STEER}{BECAME}became_of(first.id)\n".replace("in 60 words", "in 900 words")
    lines = (await run(code, base_url)).splitlines()
    assert "[steered]" in lines
    assert "ants" in lines[-3]
    assert lines[-2] == "[response.completed]"
    assert re.fullmatch(r"steer_[0-9a-f]{32} committed resp_[0-9a-f]{32} None", lines[-1])


@pytest.mark.parametrize("unhappy", UNHAPPY)
async def test_the_lanes_end_however_their_answers_do(base_url: str, unhappy: str) -> None:
    await run(LANES.replace("Hello, {lane}!", unhappy), base_url)


@pytest.mark.parametrize("unhappy", UNHAPPY)
async def test_the_fork_says_how_its_parent_ended(base_url: str, unhappy: str) -> None:
    code = LANES + textwrap.indent(FORK, "    ")
    status, _, errors = await ran(code.replace("My name is Ada.", unhappy), base_url)
    assert status == 1
    assert f'"type": "{UNHAPPY[unhappy]}"' in errors


@pytest.mark.parametrize("unhappy", UNHAPPY)
@pytest.mark.parametrize("successor", [False, True])
async def test_the_steer_ends_however_its_answers_do(
    base_url: str, unhappy: str, successor: bool
) -> None:
    code = STEER.replace("in 60 words", "in 900 words")
    if successor:
        code = code.replace("No, ants, in 10 words", unhappy)
        ends = {UNHAPPY[unhappy].replace("error", "response.steer.failed")}
    else:
        code = code.replace("Tell me about whales in 900 words", unhappy)
        ends = {UNHAPPY[unhappy], "response.completed"}  # steered in time, it goes on
    *_, last = (await run(code, base_url)).splitlines()
    assert last[1:-1] in ends


async def test_each_loop_ends_at_a_limit(base_url: str) -> None:
    limited = 'model="rehearse", max_output_tokens=3'
    await run(LANES.replace('model="rehearse"', limited), base_url)
    code = STEER.replace('model="rehearse"', limited).replace("in 60 words", "in 900 words")
    *_, last = (await run(code, base_url)).splitlines()
    assert last in ("[max_output_tokens]", "[response.completed]")
