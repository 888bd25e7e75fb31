"""Every command of docs/operations.md that is for a host, Compose or a cluster works, or parses."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
import pytest
import yaml  # type: ignore[import-untyped]

from gateway.keys.keys_file import digest_of
from tests.deploy.compose import ROOT
from tests.deploy.operations import (
    SECTIONS,
    carried_out,
    program,
    with_docker,
    with_kubectl,
    with_systemctl,
)
from tests.support.hang_guard import HANG
from tests.upstream.conftest import certificate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["certificate"]
BACKUP = "Backup of the state directory"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
    return port


def asked(port: int, method: str, path: str, **body: Any) -> dict[str, Any]:
    """What the gateway answers."""
    with httpx2.Client(trust_env=False, timeout=HANG) as http:
        answer = http.request(method, f"http://127.0.0.1:{port}{path}", json=body or None)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_no_command_is_left_out() -> None:
    tested = {
        "Compose and nginx",
        "Metrics",
        "Kubernetes",
        "systemd",
        BACKUP,
        "Upgrade and rollback",
        "Sizing",
        "TLS",
        "Redis by TLS",
        "Certificate authorities and proxies towards backends",
    }
    ours = re.compile(r"^(docker|kubectl|systemctl|/opt/)", re.MULTILINE)
    there = {name for name, blocks in SECTIONS.items() if any(map(ours.search, blocks))}
    assert there <= tested <= SECTIONS.keys()


def test_it_bears_a_load_and_what_is_backed_up_comes_back(tmp_path: Path) -> None:
    state, archive = tmp_path / "state", tmp_path / "multilane-state.tar.gz"
    moved = {"/var/lib/multilane": str(state), "multilane-state.tar.gz": str(archive)}
    port = free_port()
    with_systemctl(tmp_path, port, state)
    backup, restore, _ = SECTIONS[BACKUP]
    [load] = SECTIONS["Sizing"]
    carried_out("systemctl start multilane", tmp_path)
    try:
        kept = asked(
            port, "POST", "/v1/responses", model="rehearse", input="In 3 words.", store=True
        )
        path = f"/v1/responses/{kept['id']}"
        asked(port, "GET", path)
        place = {"multilane load": f"{sys.executable} -m multilane load", ":8080": f":{port}"}
        assert "4 completed" in carried_out(load, tmp_path, place)
        carried_out(backup, tmp_path, moved)
        later = asked(
            port, "POST", "/v1/responses", model="rehearse", input="In 3 words.", store=True
        )
        carried_out(restore, tmp_path, moved)
        assert asked(port, "GET", path)["output"] == kept["output"]
        with pytest.raises(AssertionError, match="not_found"):
            asked(port, "GET", f"/v1/responses/{later['id']}")
    finally:
        carried_out("systemctl stop multilane", tmp_path)


def test_the_service_is_installed(tmp_path: Path) -> None:
    [block] = SECTIONS["systemd"]
    with_systemctl(tmp_path, 0, tmp_path)
    venv = f"{sys.executable} -m venv --without-pip"
    # Packages have a test of their own; here it only has to be a directory that has one.
    program(tmp_path, "pip", '#!/bin/sh\n[ "$1" = install ] && [ -f "$2/pyproject.toml" ]\n')
    (tmp_path / "api-keys").write_text("k1\n")
    moved = {
        "/opt/multilane/bin/pip": "pip",
        "python3 -m venv": venv,
        "/opt/": f"{tmp_path}/opt/",
        "/etc/": f"{tmp_path}/etc/",
        " api-keys": f" {tmp_path}/api-keys",
    }
    carried_out(block, tmp_path, moved)
    key = tmp_path / "etc" / "multilane" / "api-keys"
    assert (key.read_text(), key.stat().st_mode & 0o777) == ("k1\n", 0o600)
    unit = tmp_path / "etc" / "systemd" / "system" / "multilane.service"
    assert unit.read_bytes() == (ROOT / "deploy" / "multilane.service").read_bytes()
    # What the unit's own comment says is the same.
    commands = [line.strip() for line in block.splitlines() if line.startswith(("/opt", "python3"))]
    text = unit.read_text("utf-8")
    assert all(f"#   {command}" in text for command in commands), commands


def test_commands_of_compose_parse(tmp_path: Path) -> None:
    with_docker(tmp_path)
    blocks = [*SECTIONS["Compose and nginx"], SECTIONS[BACKUP][2], SECTIONS["Metrics"][1]]
    blocks += [one for one in SECTIONS["Upgrade and rollback"] if "docker" in one]
    assert len(blocks) == 5
    for block in blocks:
        to = {" > multilane-redis": f" > {tmp_path}/redis"} if "multilane-redis" in block else {}
        carried_out(block, tmp_path, to)
    with pytest.raises(AssertionError, match="invalid choice"):
        carried_out("docker compose stop rediss", tmp_path)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl is installed")
def test_commands_of_kubernetes(tmp_path: Path) -> None:
    with_kubectl(tmp_path)
    (tmp_path / "api-keys").write_text("k1,k2")
    [block] = SECTIONS["Kubernetes"]
    printed = carried_out(
        block, tmp_path, {"--from-file=api-keys": f"--from-file={tmp_path}/api-keys"}
    )
    secret, *applied = printed.partition("---\n")
    kinds = [one["kind"] for one in yaml.safe_load_all(secret + "".join(applied))]
    assert kinds[0] in ("Secret", "ConfigMap")
    assert {"Deployment", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler"} <= set(kinds)
    [undo] = [one for one in SECTIONS["Upgrade and rollback"] if "kubectl" in one]
    carried_out(undo, tmp_path)


def test_the_wheel_is_one_that_is_built(tmp_path: Path) -> None:
    block = SECTIONS["Upgrade and rollback"][0]
    program(tmp_path, "pip", '#!/bin/sh\n[ "$1 $2" = "install --upgrade" ] && [ -n "$3" ]\n')
    program(tmp_path, "systemctl", '#!/bin/sh\n[ "$1 $2" = "restart multilane" ]\n')
    carried_out(block, tmp_path, {"/opt/multilane/bin/pip": "pip"})


@contextmanager
def served(block: str, where: Path, moved: dict[str, str], port: int) -> Iterator[None]:
    """Run a block that ends with `multilane serve`, until the caller is done."""
    command = f'#!/bin/sh\nexec {sys.executable} -m multilane "$@" --port {port}'
    program(where, "multilane", f"{command} >{where}/gateway.log 2>&1\n")
    for place, own in moved.items():
        assert place in block
        block = block.replace(place, own)
    lines = block.strip().splitlines()
    lines[-1] = f"exec {where}/bin/{lines[-1]}"
    with running("bash", "-euc", "\n".join(lines)):
        yield


@contextmanager
def running(*words: str) -> Iterator[None]:
    """Run a process until the caller is done."""
    child = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        child.terminate()
        child.wait(HANG)


async def until(port: int, path: str, wanted: Any) -> None:
    """Wait until an answer is what is wanted."""
    with anyio.fail_after(HANG):
        async with httpx2.AsyncClient(trust_env=False) as http:
            while True:
                try:
                    answer = await http.get(f"http://127.0.0.1:{port}{path}")
                    if wanted(answer):
                        return
                except httpx2.TransportError:
                    pass
                await anyio.sleep(0.05)


async def test_the_gateway_speaks_tls(tmp_path: Path, certificate: Path) -> None:
    serve, load = SECTIONS["TLS"]
    port = free_port()
    key, keys = "sk-1", tmp_path / "keys"
    keys.write_text(f"acme: {digest_of(key.encode()).hex()}\n")
    moved = {
        "/etc/multilane/keys": str(keys),
        "/etc/multilane/fullchain.pem": str(certificate),
        "/etc/multilane/privkey.pem": str(certificate),
        "--host 0.0.0.0": "--redis-url memory",
    }
    with served(serve, tmp_path, moved, port):
        with anyio.fail_after(HANG):
            while True:
                try:
                    await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
                    break
                except OSError:
                    await anyio.sleep(0.05)
        moved = {
            "/etc/multilane/gateway-ca.pem": str(certificate),
            "gateway.example:8443": f"127.0.0.1:{port}",
            "multilane load": f"{sys.executable} -m multilane load",
        }
        said = await anyio.to_thread.run_sync(carried_out, load, tmp_path, moved)
    assert "4 completed" in said


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="no redis-server is installed")
async def test_redis_is_asked_by_tls(tmp_path: Path, certificate: Path) -> None:
    [block] = SECTIONS["Redis by TLS"]
    tls, port = free_port(), free_port()
    words = ["redis-server", "--port", "0", "--tls-port", str(tls), "--tls-auth-clients", "no"]
    words += ["--tls-cert-file", str(certificate), "--tls-key-file", str(certificate)]
    words += [
        "--requirepass",
        "password",
        "--save",
        "",
        "--appendonly",
        "yes",
        "--dir",
        str(tmp_path),
    ]
    words += ["--maxmemory-policy", "noeviction"]
    moved = {
        "redis.example:6379": f"127.0.0.1:{tls}",
        "/etc/multilane/redis-ca.pem": str(certificate),
    }
    with running(*words), served(block, tmp_path, moved, port):
        await until(port, "/v1/models", lambda answer: answer.status_code == 200)
        kept = asked(
            port, "POST", "/v1/responses", model="rehearse", input="In 3 words.", store=True
        )
        path = f"/v1/responses/{kept['id']}"
        await until(port, path, lambda answer: answer.status_code == 200)


async def test_metrics_have_a_port_of_their_own(tmp_path: Path) -> None:
    block, _ = SECTIONS["Metrics"]
    port, shown = free_port(), free_port()
    block = block.rstrip() + " --redis-url memory\n"
    with served(block, tmp_path, {"9464": str(shown)}, port):
        await until(shown, "/metrics", lambda answer: "multilane_connections 0" in answer.text)
        await until(port, "/metrics", lambda answer: answer.status_code == 404)


async def test_a_backend_of_another_authority_is_trusted(tmp_path: Path, certificate: Path) -> None:
    [block] = SECTIONS["Certificate authorities and proxies towards backends"]
    backend, port = free_port(), free_port()
    code = (
        "import http.server, json, ssl, sys\n"
        "class Answer(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        '        body = b\'{"object":"list","data":[{"id":"far","object":"model"}]}\'\n'
        "        self.send_response(200)\n"
        "        self.send_header('content-type', 'application/json')\n"
        "        self.send_header('content-length', str(len(body)))\n"
        "        self.end_headers()\n"
        "        self.wfile.write(body)\n"
        "server = http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Answer)\n"
        "context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n"
        "context.load_cert_chain(sys.argv[2])\n"
        "server.socket = context.wrap_socket(server.socket, server_side=True)\n"
        "server.serve_forever()\n"
    )
    words = [sys.executable, "-c", code, str(backend), str(certificate)]
    moved = {
        "/etc/multilane/backend-ca.pem": str(certificate),
        "llm.example:8443": f"127.0.0.1:{backend}",
    }
    with running(*words), served(block.rstrip() + " --redis-url memory\n", tmp_path, moved, port):
        await until(port, "/v1/models", lambda answer: "far" in answer.text)
