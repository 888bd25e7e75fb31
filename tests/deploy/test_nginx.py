"""deploy/nginx.conf in front of a gateway that is dead, in each way in which one can be."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from gateway.config.settings import Settings
from tests.deploy.compose import DEPLOY, seconds
from tests.deploy.town import GATEWAYS, KEY, Town, nginx_options, town
from tests.support.client import connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

A, B = GATEWAYS
NGINX = shutil.which("nginx")
pytestmark = pytest.mark.skipif(NGINX is None, reason="no nginx is installed")
#: Settings of the recipe, in seconds.
CONNECT, AWAY = 1, 10


@contextmanager
def refusing() -> Iterator[int]:
    """The port of a process that has ended: the kernel refuses at once."""
    with socket.socket() as bound:  # bound, so that nobody else listens there
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@contextmanager
def swallowing() -> Iterator[int]:
    """The port of a machine that is gone: nothing comes back. Its queue of connections is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            peer = stack.enter_context(socket.socket())
            peer.setblocking(False)
            peer.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@contextmanager
def closing() -> Iterator[int]:
    """The port of a gateway that is killed over and over: it takes connections and drops them."""
    import threading

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        over = threading.Event()

        def drop() -> None:
            while not over.is_set():
                try:
                    listener.accept()[0].close()
                except TimeoutError:
                    continue

        thread = threading.Thread(target=drop)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            thread.join()


@asynccontextmanager
async def behind_nginx(here: Town, dead: int) -> AsyncIterator[Path]:
    """nginx in front of one gateway and a dead place; where it logs whom it has asked."""
    assert NGINX is not None
    places = {
        f"{A}:8080": f"127.0.0.1:{dead}",
        f"{B}:8080": f"127.0.0.1:{here.ports[B]}",
        "listen 8080": f"listen 127.0.0.1:{here.ports['edge']}",
    }
    log = here.where / "asked.log"
    keep = f"log_format asked '$upstream_addr';\n    access_log {log} asked;"
    here.spawn("edge", [NGINX, *nginx_options(here.where, places, keep)])
    await here.listening("edge")
    yield log


@pytest.mark.parametrize("dead", [refusing, swallowing, closing])
async def test_a_dead_gateway_is_asked_once_in_a_while(dead: Any, tmp_path: Path) -> None:
    async with town(tmp_path) as here:
        with dead() as port:
            async with behind_nginx(here, port) as log, httpx2.AsyncClient(trust_env=False) as http:
                began = time.monotonic()
                for _ in range(22):
                    async with connect(here.url("edge"), headers=KEY) as client:
                        await client.create(model="rehearse", input="In 2 words.")
                        await client.until("response.created")
                    models = await http.get(f"{here.url('edge')}/models", headers=KEY)
                    assert models.status_code == 200
                took = time.monotonic() - began
                asked = log.read_text("utf-8").count(f"127.0.0.1:{port}")
        # Once by a socket and once by a request, and again after each 10 s that this takes.
        assert 1 <= asked <= 2 * (1 + took // AWAY), log.read_text("utf-8")


async def test_without_any_gateway_it_says_so(tmp_path: Path) -> None:
    assert NGINX is not None
    here = Town(tmp_path)
    with refusing() as dead, refusing() as edge:
        here.ports["edge"] = edge
    places = {f"{name}:8080": f"127.0.0.1:{dead}" for name in GATEWAYS}
    places["listen 8080"] = f"listen 127.0.0.1:{edge}"
    here.spawn("edge", [NGINX, *nginx_options(tmp_path, places)])
    try:
        await here.listening("edge")
        async with httpx2.AsyncClient(trust_env=False) as http:
            for headers in ({}, {"Connection": "Upgrade", "Upgrade": "websocket"}):
                answer = await http.get(f"{here.url('edge')}/responses", headers=headers)
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
                assert answer.json()["error"]["code"] == "no_gateway"
    finally:
        here.children["edge"].kill()
        here.children["edge"].wait()


def test_it_takes_its_settings(tmp_path: Path) -> None:
    assert NGINX is not None
    places = {f"{name}:8080": "127.0.0.1:9" for name in GATEWAYS}
    words = [NGINX, "-t", *nginx_options(tmp_path, places)]
    ran = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
    assert ran.returncode == 0, ran.stderr
    assert "[warn]" not in ran.stderr


def test_its_times_fit_the_gateway() -> None:
    text = (DEPLOY / "nginx.conf").read_text("utf-8")
    known = Settings()
    for name in ("proxy_read_timeout", "proxy_send_timeout", "send_timeout"):
        [given] = re.findall(rf"^ +{name} (\S+);$", text, re.MULTILINE)
        assert seconds(given) > known.max_age + known.age_grace
    assert re.findall(r"server (\S+) max_fails=1 fail_timeout=(\d+)s;", text) == [
        (f"{name}:8080", str(AWAY)) for name in (*GATEWAYS, *GATEWAYS)
    ]
    assert f"proxy_connect_timeout {CONNECT}s;" in text
