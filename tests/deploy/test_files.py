"""What deploy/ and docker-compose.yml say fits the code, and each other."""

from __future__ import annotations

import fnmatch
import json
import re
import shutil
import socket
import subprocess
import sys
from configparser import RawConfigParser
from typing import TYPE_CHECKING, Any

import anyio
import click
import pytest

from gateway.cli import cli
from gateway.config.loading import load
from gateway.config.settings import Settings
from tests.deploy import compose
from tests.deploy.compose import DEPLOY, ROOT, environment, ours, seconds, services
from tests.support.gateway import serving

if TYPE_CHECKING:
    from collections.abc import Mapping

GATEWAYS = ("gateway-a", "gateway-b")


def parsed(words: list[str]) -> dict[str, Any]:
    """What a command line of ours gives to its command, as click reads it; refuses what is none."""
    command = cli.get_command(click.Context(cli), words[0])
    assert command is not None, f"there is no `multilane {words[0]}`"
    with command.make_context(words[0], list(words[1:])) as context:
        return context.params


def settings(words: list[str], variables: Mapping[str, str], patch: pytest.MonkeyPatch) -> Settings:
    """What `multilane serve` would run with."""
    for name, value in variables.items():
        patch.setenv(name, value)
    given = {name: value for name, value in parsed(words).items() if value not in (None, ())}
    return load(given)


def dockerfile() -> str:
    """The instructions, each on one line."""
    lines = (DEPLOY / "Dockerfile").read_text("utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("#")).replace("\\\n", "")


@pytest.mark.parametrize("name", ours())
def test_every_command_parses(name: str) -> None:
    parsed(ours()[name])


@pytest.mark.parametrize("name", GATEWAYS)
def test_the_gateways_start_and_outlive_their_drain(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = services()[name]
    found = settings(service["command"], environment(service), monkeypatch)
    assert found.redis_url == "redis://redis:6379"
    assert found.upstream == "http://upstream:8080/v1"
    assert (found.host, found.port) == ("0.0.0.0", Settings.model_fields["port"].default)
    assert [key.get_secret_value() for key in found.api_keys] == ["try-multilane"]
    assert [str(one) for one in found.trusted_proxy] == ["172.16.0.0/12", "192.168.0.0/16"]
    assert seconds(service["stop_grace_period"]) >= found.drain_timeout + 10


def test_keys_and_backend_are_taken_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"MULTILANE_API_KEYS": "one", "MULTILANE_UPSTREAM": "https://backend.test/v1"}
    service = services(**given)["gateway-a"]
    assert "MULTILANE_UPSTREAM_KEY" in service["environment"]
    found = settings(service["command"], environment(service), monkeypatch)
    assert found.upstream == given["MULTILANE_UPSTREAM"]
    assert environment(services(**given)["load"]) == {"MULTILANE_LOAD_KEY": "one"}
    given["MULTILANE_LOAD_KEY"] = "two"
    assert environment(services(**given)["load"]) == {"MULTILANE_LOAD_KEY": "two"}


def test_what_a_service_names_is_there() -> None:
    content = compose.read()
    for name, service in content["services"].items():
        for other, needed in service.get("depends_on", {}).items():
            there = content["services"][other]
            healthy = "healthcheck" in there or "build" in there  # the image has a check
            assert needed["condition"] == "service_healthy", name
            assert healthy, f"{name} would wait for {other} for ever"
        assert set(service["networks"]) <= set(content["networks"])
        for mount in service.get("volumes", []):
            source = mount.partition(":")[0]
            assert (ROOT / source).is_file() if "/" in source else source in content["volumes"]
    assert content["services"]["load"]["command"][1] == "ws://edge:8080/v1/responses"


def test_one_port_of_this_machine_is_published() -> None:
    ports = {name: one["ports"] for name, one in services().items() if "ports" in one}
    assert ports == {"edge": ["127.0.0.1:8080:8080"]}


def test_redis_forgets_nothing() -> None:
    words = services()["redis"]["command"]
    options = dict(zip(words[1::2], words[2::2], strict=True))
    assert options["--appendonly"] == "yes"
    assert options["--maxmemory-policy"] == "noeviction"


def test_the_image_gets_what_it_copies() -> None:
    kept = (ROOT / ".dockerignore").read_text("utf-8").split("\n")
    for line in re.findall(r"^COPY (?!--from)(.+)$", dockerfile(), re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists()
            assert any(fnmatch.fnmatch(source, one[1:]) for one in kept if one.startswith("!"))


def test_the_image_serves_as_nobody_in_particular(monkeypatch: pytest.MonkeyPatch) -> None:
    final = dockerfile().rpartition("\nFROM ")[2]
    assert re.search(r"^USER \d+:\d+$", final, re.MULTILINE)
    assert "STOPSIGNAL SIGTERM" in final
    assert f"EXPOSE {Settings.model_fields['port'].default}" in final
    entry, words = (
        json.loads(found[1])
        for name in ("ENTRYPOINT", "CMD")
        if (found := re.search(rf"^{name} (.+)$", final, re.MULTILINE))
    )
    assert entry == ["multilane"]
    assert settings(words, {"MULTILANE_API_KEYS": "k"}, monkeypatch).host == "0.0.0.0"


async def test_the_image_checks_its_health() -> None:
    found = re.search(r"^HEALTHCHECK .*CMD (\[.+\])$", dockerfile(), re.MULTILINE)
    assert found is not None
    words = [sys.executable, *json.loads(found[1])[1:]]

    async def healthy(port: int) -> bool:
        ran = await anyio.run_process(words, env={"MULTILANE_PORT": str(port)}, check=False)
        return ran.returncode == 0

    async with serving(Settings(upstream="http://127.0.0.1:9/v1")) as (server, url):
        port = int(url.rpartition(":")[2].partition("/")[0])
        assert await healthy(port)
        server.gateway.draining = True
        assert not await healthy(port)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
    assert not await healthy(port)


def test_haproxy_takes_its_settings() -> None:
    haproxy = shutil.which("haproxy")
    if haproxy is None:
        pytest.skip("no haproxy is installed")
    words = [haproxy, "-c", "-f", str(DEPLOY / "haproxy.cfg")]
    ran = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
    assert ran.returncode == 0, ran.stderr
    complaints = re.findall(r"^\[(?:WARNING|ALERT)\].*$", ran.stderr, re.MULTILINE)
    assert all("could not resolve address" in one for one in complaints), complaints


def test_haproxy_waits_longer_than_a_socket_lives() -> None:
    text = (DEPLOY / "haproxy.cfg").read_text("utf-8")
    assert re.findall(r"^ +server (\S+) (\S+)$", text, re.MULTILINE) == [
        (name, f"{name}:8080") for name in GATEWAYS
    ]
    tunnel = re.search(r"^ +timeout tunnel (\S+)$", text, re.MULTILINE)
    assert tunnel is not None
    known = Settings()
    assert seconds(tunnel[1]) > known.max_age + known.age_grace
    assert seconds(tunnel[1]) > known.ping_interval + known.ping_timeout


def test_systemd_outlives_the_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = RawConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / "multilane.service", "utf-8")
    service = unit["Service"]
    found = settings(service["ExecStart"].split()[1:], {}, monkeypatch)
    assert float(service["TimeoutStopSec"]) >= found.drain_timeout + 10
    # Two for every connection that a process takes, and more for what it runs.
    assert int(service["LimitNOFILE"]) >= 2 * found.max_connections
    text = (DEPLOY / "multilane.service").read_text("utf-8")
    named = re.findall(r"^#?Environment=(MULTILANE_\w+)=", text, re.MULTILINE)
    assert set(named) == {
        "MULTILANE_API_KEYS_FILE",
        "MULTILANE_UPSTREAM_KEY_FILE",
        "MULTILANE_STATE_DIR",
    }
