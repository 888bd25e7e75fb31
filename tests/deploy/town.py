"""The services of docker-compose.yml as plain processes of this machine, on free ports.

Each runs the command that the file gives it; only the places are others.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import anyio
import httpx2

from tests.deploy.compose import DEPLOY, ROOT, environment, services
from tests.support.client import connect
from tests.support.hang_guard import HANG
from tests.support.redis_engine import binary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.support.client import Client

GATEWAYS: Final = ("gateway-a", "gateway-b")
METRICS: Final = tuple(f"{name} metrics" for name in GATEWAYS)
KEY: Final = {"Authorization": "Bearer try-multilane"}


@dataclass
class Town:
    """Where everything is. Files of its processes are in `where`."""

    where: Path
    ports: dict[str, int] = field(default_factory=dict)
    children: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def url(self, name: str) -> str:
        """The base URL of a gateway, or of the edge."""
        return f"http://127.0.0.1:{self.ports[name]}/v1"

    @asynccontextmanager
    async def client(self, name: str) -> AsyncIterator[Client]:
        """A socket on a gateway, or through the edge."""
        async with connect(self.url(name), headers=KEY) as client:
            yield client

    async def get(self, name: str, path: str) -> tuple[int, Any]:
        """What a gateway answers: status and JSON."""
        async with httpx2.AsyncClient(trust_env=False) as http:
            answer = await http.get(f"http://127.0.0.1:{self.ports[name]}{path}", headers=KEY)
        return answer.status_code, answer.json()

    async def sees(self, name: str, path: str, **fields: Any) -> dict[str, Any]:
        """Wait until a gateway answers with these fields; what is written behind is soon there."""
        with anyio.fail_after(HANG):
            while True:
                status, found = await self.get(name, path)
                if status == 200 and fields.items() <= found.items():
                    return dict(found)
                await anyio.sleep(0.02)

    def stop(self, name: str) -> None:
        """Tell it to stop, as Compose does."""
        self.children[name].send_signal(signal.SIGTERM)

    async def ended(self, name: str, within: float = HANG) -> int:
        """Wait for its end; its exit code."""
        with anyio.fail_after(within):
            while (code := self.children[name].poll()) is None:  # noqa: ASYNC110
                await anyio.sleep(0.02)
        return code

    def log(self, name: str) -> str:
        """What it wrote so far."""
        return (self.where / f"{name}.log").read_text("utf-8")

    def start(self, name: str, *more: str) -> None:
        """Run a service of our image, or Redis; `more` are further options."""
        service = services()[name]
        words, given = service["command"], environment(service)
        if name == "redis":
            self.spawn(name, [_redis(), *words[1:], *self._option(name), "--dir", str(self.where)])
            return
        places = {"0.0.0.0": "127.0.0.1"}
        places |= {f"{other}:{port}": f"127.0.0.1:{self.ports[other]}" for other, port in NAMED}
        words = [_moved(word, places) for word in words]
        given = {key: _moved(value, places) for key, value in given.items()}
        option = [] if name == "load" else self._option(name)
        if "working_dir" in service:
            text = (DEPLOY / "compose" / "multilane.toml").read_text("utf-8")
            path = self.where / "multilane.toml"
            path.write_text(_moved(text, places), "utf-8")
        self.spawn(name, [sys.executable, "-m", "gateway", *words, *option, *more], given)

    def start_edge(self, kind: str) -> None:
        """Run haproxy or nginx on its own settings, but with these places, and fewer sockets."""
        program = shutil.which(kind)
        assert program is not None
        places = {f"{name}:8080": f"127.0.0.1:{self.ports[name]}" for name in GATEWAYS}
        port = f"127.0.0.1:{self.ports['edge']}"
        places |= {"bind :8080": f"bind {port}", "listen 8080": f"listen {port}"}
        if kind == "haproxy":
            path = self.where / "haproxy.cfg"
            text = _moved((DEPLOY / path.name).read_text("utf-8"), places)
            path.write_text(text.replace("fd-hard-limit 50000", "fd-hard-limit 1000"), "utf-8")
            self.spawn("edge", [program, "-db", "-f", str(path)])
        else:
            self.spawn("edge", [program, *nginx_options(self.where, places)])

    def spawn(self, name: str, words: list[str], given: dict[str, str] | None = None) -> None:
        """Run one process; what it writes goes to a file."""
        kept = {key: v for key, v in os.environ.items() if not key.startswith("MULTILANE_")}
        with (self.where / f"{name}.log").open("wb") as log:
            self.children[name] = subprocess.Popen(
                words,
                cwd=self.where,
                env=kept | {"PYTHONPATH": str(ROOT)} | (given or {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    async def listening(self, *names: str) -> None:
        """Wait until these take connections."""
        for name in names:
            with anyio.fail_after(HANG):
                while not await _taken(self.ports[name]):
                    assert self.children[name].poll() is None, self.log(name)
                    await anyio.sleep(0.02)

    def _option(self, name: str) -> list[str]:
        option = ["--port", str(self.ports[name])]
        if name in GATEWAYS:
            option += ["--metrics-port", str(self.ports[f"{name} metrics"])]
        return option


#: What the services call each other by.
NAMED: Final = (("redis", 6379), ("upstream", 8080), ("edge", 8080))


@asynccontextmanager
async def town(where: Path, *, edge: str = "") -> AsyncIterator[Town]:
    """Redis, the rehearsal backend and two gateways, behind haproxy or nginx if `edge` says so."""
    made = Town(where, free_ports("redis", "upstream", *GATEWAYS, "edge", *METRICS))
    async with AsyncExitStack() as stack:
        stack.enter_context(_all_end(made))
        made.start("redis")
        made.start("upstream", "--rate", "100")
        await made.listening("redis", "upstream")
        for name in GATEWAYS:
            made.start(name)
        await made.listening(*GATEWAYS)
        for name in GATEWAYS:
            # The edge goes round a gateway that is not ready at its first check.
            await made.sees(name, "/ready")
        if edge:
            made.start_edge(edge)
            await made.listening("edge")
        yield made


def nginx_options(where: Path, places: dict[str, str], log: str = "access_log off;") -> list[str]:
    """The options of an nginx on the recipe's settings.

    Args:
        where: What it writes goes here, so that it need not be root.
        places: Text of the recipe -> what stands there instead.
        log: What is said there of the log of requests.
    """
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"    {kind}_temp_path {where}/{kind};\n" for kind in kinds)
    places = places | {
        "http {\n": f"http {{\n{temporary}",
        "access_log off;": log,
        "/tmp/nginx.pid": f"{where}/nginx.pid",
        "worker_connections 32768": "worker_connections 256",
        "worker_rlimit_nofile 65536": "worker_rlimit_nofile 1024",
    }
    text = (DEPLOY / "nginx.conf").read_text("utf-8")
    assert all(found in text for found in places if "bind" not in found)
    path = where / "nginx.conf"
    path.write_text(_moved(text, places), "utf-8")
    if os.geteuid() == 0:  # else its workers could not enter the directory
        path.write_text("user root;\n" + path.read_text("utf-8"), "utf-8")
    return ["-c", str(path), "-e", "stderr", "-g", "daemon off;"]


@contextmanager
def _all_end(made: Town) -> Iterator[None]:
    try:
        yield
    except BaseException:
        for name in made.children:
            sys.stderr.write(f"--- {name}\n{made.log(name)}\n")
        raise
    finally:
        for child in made.children.values():
            child.kill()
        for child in made.children.values():
            child.wait()


def _redis() -> str:
    return shutil.which("redis-server") or binary("valkey")


def free_ports(*names: str) -> dict[str, int]:
    """All at a time, so that no two are the same."""
    taken = {name: socket.create_server(("127.0.0.1", 0)) for name in names}
    try:
        return {name: one.getsockname()[1] for name, one in taken.items()}
    finally:
        for one in taken.values():
            one.close()


async def _taken(port: int) -> bool:
    try:
        stream = await anyio.connect_tcp("127.0.0.1", port)
    except OSError:
        return False
    await stream.aclose()
    return True


def _moved(text: str, places: dict[str, str]) -> str:
    return re.sub("|".join(map(re.escape, places)), lambda found: places[found[0]], text)
