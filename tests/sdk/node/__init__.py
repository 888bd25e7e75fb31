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


def prepare() -> list[str]:
    """Install once, and return the command to run a script with."""
    system = shutil.which("node")
    bundled = CACHE / "node_modules" / ".bin" / "node"
    new_enough = system is not None and _major(system) >= NODE
    if not _installed() or not (new_enough or bundled.exists()):
        npm = shutil.which("npm")
        if npm is None:
            raise NotHere(f"the Node SDK needs npm, or Node >= {NODE} and {CACHE} filled before")
        _install(npm, [] if new_enough else [f"node@{NODE}"])
    script = CACHE / "lanes.mjs"  # beside node_modules: where Node looks for the SDK
    script.write_text((HERE / "lanes.mjs").read_text())
    return [system if new_enough and system is not None else str(bundled), str(script)]


def _installed() -> bool:
    package = CACHE / "node_modules" / "openai" / "package.json"
    return package.exists() and json.loads(package.read_text())["version"] == OPENAI


def _install(npm: str, also: list[str]) -> None:
    CACHE.mkdir(exist_ok=True)
    (CACHE / "package.json").write_text('{"private": true}')
    quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    packages = [f"openai@{OPENAI}", "ws@8", *also]
    done = subprocess.run(
        [npm, "install", *quiet, *packages], cwd=CACHE, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"npm install {' '.join(packages)} failed:\n{done.stderr[-2000:]}")


def _major(node: str) -> int:
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.match(r"v(\d+)", told)
    return int(found[1]) if found else 0
