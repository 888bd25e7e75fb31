"""What deploy/ and docker-compose.yml say fits the code, and each other."""

from __future__ import annotations

import fnmatch
import json
import re
import shutil
import subprocess
from configparser import RawConfigParser
from typing import TYPE_CHECKING, Any

import click
import pytest

from gateway.cli import cli
from gateway.config.loading import BadStart, load
from gateway.config.settings import Settings
from tests.deploy import compose
from tests.deploy.compose import (
    DEPLOY,
    IMAGE,
    ROOT,
    assignments,
    environment,
    ours,
    seconds,
    services,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

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
    return load(given, given.pop("config", None))


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
    found = served(service, monkeypatch)
    assert found.redis_url == "redis://redis:6379"
    assert found.upstream == "http://upstream:8080/v1"
    assert (found.host, found.port) == ("0.0.0.0", Settings.model_fields["port"].default)
    assert [key.get_secret_value() for key in found.api_keys] == ["try-multilane"]
    assert [str(one) for one in found.trusted_proxy] == ["172.16.0.0/12", "192.168.0.0/16"]
    assert seconds(service["stop_grace_period"]) >= found.drain_timeout + 10
    assert services(GRACE="15m")[name]["stop_grace_period"] == "15m"


def served(service: dict[str, Any], patch: pytest.MonkeyPatch, dotenv: str = "") -> Settings:
    """What a gateway's service runs with: its files, its variables, and its command."""
    [mount] = service["volumes"]
    assert mount.split(":")[1:] == [service["working_dir"], "ro"]
    patch.chdir(ROOT / mount.partition(":")[0])
    return settings(service["command"], environment(service, dotenv), patch)


def test_every_setting_of_the_env_file_reaches_the_gateways(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dotenv = """\
EDGE=127.0.0.1:9000
MULTILANE_API_KEYS=one
MULTILANE_UPSTREAM=https://backend.test/v1
MULTILANE_UPSTREAM_KEY=sk-1
MULTILANE_MAX_ACTIVE=3
MULTILANE_DRAIN_TIMEOUT=600
MULTILANE_LOG_FORMAT=json
MULTILANE_REDIS_URL=rediss://:secret@store.test:6380/2
MULTILANE_PORT=9999
"""
    given = assignments(dotenv)
    for name in GATEWAYS:
        service = services(**given)[name]
        assert {name: environment(service, dotenv)[name] for name in given} == given
        found = served(service, monkeypatch, dotenv)
        assert [key.get_secret_value() for key in found.api_keys] == ["one"]
        assert found.upstream == "https://backend.test/v1"
        assert (found.max_active, found.drain_timeout, found.log_format) == (3, 600, "json")
        assert found.redis_url == "rediss://:secret@store.test:6380/2"
        assert (found.host, found.port) == ("0.0.0.0", 8080), "where the edge looks for them"
    assert environment(services(**given)["load"]) == {"MULTILANE_LOAD_KEY": "one"}
    given["MULTILANE_LOAD_KEY"] = "two"
    assert environment(services(**given)["load"]) == {"MULTILANE_LOAD_KEY": "two"}


def test_a_directory_of_ones_own_replaces_all_that_is_for_trying(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = 'url = "https://backend.test/v1"\nkey_env = "MULTILANE_UPSTREAM_KEY"'
    (tmp_path / "multilane.toml").write_text(f'[[upstreams]]\nname = "one"\n{table}\n', "utf-8")
    (tmp_path / "gateway.env").write_text("", "utf-8")
    service = services(CONFIG=str(tmp_path))["gateway-a"]
    with pytest.raises(BadStart, match="there are no keys"):
        served(service, monkeypatch, "MULTILANE_UPSTREAM_KEY=sk-1\n")
    dotenv = "MULTILANE_UPSTREAM_KEY=sk-1\nMULTILANE_API_KEYS=one\n"
    found = served(service, monkeypatch, dotenv)
    assert [one.url for one in found.upstreams] == ["https://backend.test/v1"]
    assert [key.get_secret_value() for key in found.api_keys] == ["one"]


def test_a_password_for_redis_is_known_to_all_who_ask_it(monkeypatch: pytest.MonkeyPatch) -> None:
    by_name = services(REDIS_PASSWORD="hush")
    words = by_name["redis"]["command"]
    assert words[words.index("--requirepass") + 1] == "hush"
    assert by_name["redis"]["environment"] == {"REDISCLI_AUTH": "hush"}
    found = served(by_name["gateway-a"], monkeypatch)
    assert found.redis_url == "redis://:hush@redis:6379"


def test_one_service_builds_the_image_for_all() -> None:
    by_name = services()
    assert [name for name, one in by_name.items() if "build" in one] == ["gateway-a"]
    # Whoever has no image must not look for one at a registry.
    policies = {name: by_name[name]["pull_policy"] for name in ours()}
    assert policies.pop("gateway-a") == "missing"
    assert set(policies.values()) == {"never"}


def test_what_a_service_names_is_there() -> None:
    content = compose.read()
    for name, service in content["services"].items():
        for other, needed in service.get("depends_on", {}).items():
            there = content["services"][other]
            healthy = "healthcheck" in there or there["image"] == IMAGE  # the image has a check
            assert needed["condition"] == "service_healthy", name
            assert healthy, f"{name} would wait for {other} for ever"
        assert set(service["networks"]) <= set(content["networks"])
        for mount in service.get("volumes", []):
            source = mount.partition(":")[0]
            assert (ROOT / source).exists() if "/" in source else source in content["volumes"]
    assert content["services"]["load"]["command"][1] == "ws://edge:8080/v1/responses"


def test_one_port_of_this_machine_is_published() -> None:
    # And one more, for this machine alone, with the profile for metrics.
    ports = {name: one["ports"] for name, one in services().items() if "ports" in one}
    assert ports == {"edge": ["127.0.0.1:8080:8080"], "prometheus": ["127.0.0.1:9090:9090"]}
    profiles = {name: one["profiles"] for name, one in services().items() if "profiles" in one}
    assert profiles == {"load": ["load"], "prometheus": ["metrics"]}


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
        "MULTILANE_TLS_CERT",
        "MULTILANE_TLS_KEY",
    }
