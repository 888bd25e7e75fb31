"""The clients at the versions that are tested, each in an environment that git does not see."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

from tests.sdk import node

CACHE = Path(__file__).parents[2] / ".clients"
PROGRAMS = Path(__file__).parent / "programs"
#: Set by `make clients`: install what is missing. Else only what is there is run.
ALL = "MULTILANE_CLIENTS"

PYTHON = {
    "openai_agents": ("openai-agents==0.24.0", "openai[realtime]==3.57.0"),
    "pydantic_ai_agent": ("pydantic-ai-slim[openai,openai-realtime]==2.68.0",),
    "livekit_plugin": ("livekit-plugins-openai==1.8.9",),
    "pipecat_service": ("pipecat-ai[openai]==1.14.0",),
    "langchain_model": ("langchain-openai==1.7.4",),
    "litellm_calls": ("litellm==1.110.2",),
}
NODE = {
    "openai_agents": ("@openai/agents@0.20.0", "openai@7.59.0", "zod@4"),
    "ai_sdk": ("ai@6.0.326", "@ai-sdk/openai@3.0.141", "zod@4"),
    "codex": ("@openai/codex@0.171.0",),
}


class NotHere(Exception):
    """The client is not on this machine, and could not be installed or was not to be."""


def python_command(name: str) -> list[str]:
    """Return the command that runs a program with the Python client it needs."""
    folder = CACHE / name
    interpreter = folder / "bin" / "python"
    if not _complete(folder, PYTHON[name]):
        venv.create(folder, with_pip=True, clear=True)
        _run([str(interpreter), "-m", "pip", "install", "--quiet", *PYTHON[name]], folder)
        _completed(folder, PYTHON[name])
    return [str(interpreter), str(PROGRAMS / f"{name}.py")]


def node_command(name: str) -> list[str]:
    """Return the command that runs a program with the Node client it needs."""
    folder = CACHE / f"node_{name}"
    if not _complete(folder, NODE[name]):
        try:
            node.install(folder, NODE[name])
        except (node.NotHere, RuntimeError) as failed:
            raise NotHere(str(failed)) from failed
        _completed(folder, NODE[name])
    if name == "codex":
        return [str(folder / "node_modules" / ".bin" / "codex")]
    script = folder / f"{name}.mjs"  # beside node_modules: where Node looks for the packages
    script.write_text((PROGRAMS / script.name).read_text())
    return [node.interpreter(folder), str(script)]


def _complete(folder: Path, packages: tuple[str, ...]) -> bool:
    """Return whether the folder has these packages."""
    done = folder / "packages"
    if done.exists() and done.read_text() == "\n".join(packages):
        return True
    if not os.environ.get(ALL):
        raise NotHere(f"{folder.name} is not installed here; `make clients` installs it")
    return False


def _completed(folder: Path, packages: tuple[str, ...]) -> None:
    (folder / "packages").write_text("\n".join(packages))


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotHere(f"{sys.executable}: {folder.name} cannot be installed: {done.stderr[-500:]}")
