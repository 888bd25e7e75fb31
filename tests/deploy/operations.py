"""The commands of docs/operations.md by section, and an operator's programs to try them with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from tests.deploy.compose import ROOT

if TYPE_CHECKING:
    from pathlib import Path

_TEXT: Final = (ROOT / "docs" / "operations.md").read_text("utf-8")
_BLOCK: Final = re.compile(r"^```bash\n(.*?)^```", re.DOTALL | re.MULTILINE)
#: Section -> its blocks of commands.
SECTIONS: Final = {
    section.partition("\n")[0]: _BLOCK.findall(section)
    for section in _TEXT.split("\n## ")[1:]
    if _BLOCK.search(section)
}
#: `docker`, as far as the document uses it: what Compose's own parser takes, and real services.
_DOCKER: Final = """
import argparse
from tests.deploy.compose import IMAGE, services
names = list(services())
docker = argparse.ArgumentParser("docker", allow_abbrev=False)
commands = docker.add_subparsers(required=True)
tag = commands.add_parser("tag")
tag.add_argument("source", choices=[IMAGE, "multilane:before"])
tag.add_argument("target", choices=[IMAGE, "multilane:before"])
compose = commands.add_parser("compose")
profiles = [name for one in services().values() for name in one.get("profiles", [])]
compose.add_argument("--profile", choices=profiles)
compose = compose.add_subparsers(required=True)
up = compose.add_parser("up", allow_abbrev=False)
for flag in ("--build", "--detach", "--wait", "--no-deps"):
    up.add_argument(flag, action="store_true")
run = compose.add_parser("run", allow_abbrev=False)
for flag in ("--rm", "--no-deps", "-T"):
    run.add_argument(flag, action="store_true")
run.add_argument("--entrypoint")
run.add_argument("service", choices=names)
run.add_argument("words", nargs=argparse.REMAINDER)
for command in (up, *map(compose.add_parser, ("stop", "start", "build"))):
    command.add_argument("services", nargs="*", choices=[[], *names])
docker.parse_args()
"""
#: `kubectl` itself, but without a cluster.
_KUBECTL: Final = """\
case $1 in
create) exec {kubectl} "$@" --dry-run=client --output=yaml ;;
apply) [ "$2" = --kustomize ] && exec {kubectl} kustomize "$3" ;;
rollout) [ "$3" = deployment/multilane ] && case $2 in status|undo) exit 0 ;; esac ;;
esac
exit 1
"""
#: `systemctl` for one service, which is a gateway with its state in a directory.
_SYSTEMCTL: Final = """\
case $1 in
daemon-reload) exit 0 ;;
enable) [ "$2 $3" = "--now multilane" ]; exit ;;
esac
[ "$2" = multilane ] || exit 1
case $1 in
stop|restart)
    kill "$(cat {where}/pid)"
    while kill -0 "$(cat {where}/pid)" 2>/dev/null; do sleep 0.05; done ;;
esac
case $1 in
start|restart)
    {python} -m multilane serve --port {port} --state-dir {state} >>{where}/gateway.log 2>&1 &
    echo $! >{where}/pid
    until {python} -c "import socket; socket.create_connection(('127.0.0.1', {port}))" 2>/dev/null
    do kill -0 "$(cat {where}/pid)" && sleep 0.05 || exit 1
    done ;;
esac
"""


def program(where: Path, name: str, text: str) -> None:
    """Put a program into the directory `bin` there."""
    path = where / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(0o755)


def with_docker(where: Path) -> None:
    """Have a `docker` that only takes a command line or refuses it."""
    program(where, "docker", f"#!{sys.executable}\n{_DOCKER}")


def with_kubectl(where: Path) -> None:
    """Have the installed `kubectl`, which is told not to look for a cluster."""
    program(where, "kubectl", f"#!/bin/sh\n{_KUBECTL.format(kubectl=shutil.which('kubectl'))}")


def with_systemctl(where: Path, port: int, state: Path) -> None:
    """Have a `systemctl` that starts and stops a gateway.

    Args:
        where: Its log and process id go here.
        port: Where the gateway listens.
        state: Its state directory.
    """
    text = _SYSTEMCTL.format(where=where, port=port, state=state, python=sys.executable)
    program(where, "systemctl", f"#!/bin/sh\n{text}")


def carried_out(block: str, where: Path, moved: dict[str, str] | None = None) -> str:
    """Run a block's commands in the repository with the programs in `bin`; what they print.

    Args:
        block: The commands.
        where: The directory that holds `bin`.
        moved: Paths and places of the document -> those of the test.
    """
    for place, own in (moved or {}).items():
        assert place in block, f"{place} is not in there"
        block = block.replace(place, own)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MULTILANE_")}
    path = f"{where / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=ROOT,
        env=kept | {"PATH": path, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
