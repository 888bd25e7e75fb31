"""The Node SDK and a Node that is new enough for it, in a folder that git does not see."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
CACHE = HERE.parents[2] / ".node"
OPENAI = "7.59.0"
#: The least that this SDK runs on; the npm package `node` brings it where the system's is older.
NODE = 22


class NotHere(Exception):
    """Neither Node nor npm is on this machine, and nothing was installed before."""


def prepare(name: str) -> list[str]:
    """Install once, and return the command that runs a script."""
    if not _installed() or not _runs(CACHE):
        install(CACHE, (f"openai@{OPENAI}", "ws@8"))
    script = CACHE / name  # beside node_modules: where Node looks for the SDK
    script.write_text((HERE / name).read_text())
    return [interpreter(CACHE), str(script)]


def _installed() -> bool:
    package = CACHE / "node_modules" / "openai" / "package.json"
    return package.exists() and json.loads(package.read_text())["version"] == OPENAI


def interpreter(folder: Path) -> str:
    """Return a Node that is new enough: the system's, or the one that `install` put here."""
    system = shutil.which("node")
    if system is not None and _major(system) >= NODE:
        return system
    return str(_bundled(folder))


def _bundled(folder: Path) -> Path:
    return folder / "node_modules" / ".bin" / "node"


def _runs(folder: Path) -> bool:
    return interpreter(folder) != str(_bundled(folder)) or _bundled(folder).exists()


def install(folder: Path, packages: tuple[str, ...]) -> None:
    """Install packages into a folder, and a Node where the system's is too old.

    Raises:
        NotHere: npm is missing.
        RuntimeError: npm failed.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise NotHere(f"{packages[0]} needs npm, or Node >= {NODE} and {folder} filled before")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}')
    quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    wanted = [*packages, *([] if _runs(folder) else [f"node@{NODE}"])]
    done = subprocess.run(
        [npm, "install", *quiet, *wanted], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"npm install {' '.join(wanted)} failed:\n{done.stderr[-2000:]}")


def _major(node: str) -> int:
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.match(r"v(\d+)", told)
    return int(found[1]) if found else 0
