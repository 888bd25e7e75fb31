"""Every command of docs/operations.md works, in the order in which they stand there."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "operations.md").read_text("utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
#: Seconds for all of them.
TIMEOUT = 180


def test_all_commands_in_order(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = f"{shlex.quote(sys.executable)} -m gateway"
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    program = tmp_path / ".venv" / "bin" / "multilane"
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o755)
    # What runs behind the others has to serve, and ends when they are over.
    lines = ["set -e", *BLOCKS, f"while ! {shlex.quote(str(tmp_path / 'up'))}; do sleep 0.1; done"]
    lines += ["kill %1", "wait %1"]
    up = tmp_path / "up"
    up.write_text(
        f"#!{sys.executable}\nfrom urllib.request import urlopen\n"
        f"urlopen('http://127.0.0.1:{port}/health')\n"
    )
    up.chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MULTILANE_")}
    environment |= {
        "PYTHONPATH": str(ROOT),
        "MULTILANE_PORT": str(port),
        "MULTILANE_REDIS_URL": "memory",
    }
    ran = subprocess.run(
        ["bash", "-m", "-c", "\n".join(lines)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "acme-ci" in ran.stdout
    assert (tmp_path / "acme-2.key").read_text().startswith("sk-ml-")
    assert "Traceback" not in ran.stderr
