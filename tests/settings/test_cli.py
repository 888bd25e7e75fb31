"""The command line: what reaches the code behind it, and what is not imported on the way."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from gateway import cli
from gateway.config.settings import FILE_ONLY, Settings, flag, variable

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

#: Costly, and none of a gateway's business at its start.
COSTLY = ("rich", "httpx", "openai", "starlette", "uvicorn", "anyio", "gateway.tools.load")


def test_serve_hands_on_what_was_given(run: Callable[..., Result], started: list[Any]) -> None:
    words = "serve --port 0 --api-key one --api-key two --allow-open --max-frame-bytes 1MiB"
    assert run(*words.split()).exit_code == 0
    [(settings,)] = started
    assert settings == Settings(
        port=0, api_keys=("one", "two"), allow_open=True, max_frame_bytes=1 << 20
    )


def test_a_switch_given_counts_also_when_off(
    run: Callable[..., Result], started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MULTILANE_FORWARD_AUTHORIZATION", "yes")
    run("serve")
    run("serve", "--no-forward-authorization")
    assert [settings.forward_authorization for (settings,) in started] == [True, False]


def test_demo_brings_its_own_backend(run: Callable[..., Result], started: list[Any]) -> None:
    assert run("demo", "--port", "0").exit_code == 0
    assert started == [(Settings(port=0),)]
    for option in ("--upstream", "--dialect", "--model"):
        assert f"No such option '{option}'" in run("demo", option, "x").output
        assert option in run("serve", "--help").output


def test_rehearse(run: Callable[..., Result], started: list[Any]) -> None:
    assert run("rehearse").exit_code == 0
    assert run("rehearse", "--host", "::1", "--port", "0", "--rate", "5").exit_code == 0
    assert run("rehearse", "--rate", "0").exit_code == 0
    assert started == [
        ("127.0.0.1", 8081, 30.0),
        ("::1", 0, 5.0),
        ("127.0.0.1", 8081, 0.0),
    ]
    assert run("rehearse", "--rate", "-1").exit_code == 2


def test_help_shows_every_setting_but_the_upstreams_key(run: Callable[..., Result]) -> None:
    text = run("serve", "--help").output
    for name in Settings.model_fields.keys() - set(FILE_ONLY):
        assert (flag(name) or variable(name)) in text
    assert all(f"[[{name}]]" in text for name in FILE_ONLY)
    assert "--upstream-key" not in text


@pytest.mark.parametrize("command", ["serve", "demo", "check", "load", "rehearse"])
def test_help_says_what_kind_of_value_is_wanted(command: str, run: Callable[..., Result]) -> None:
    text = run(command, "--help").output
    for kind in ("INTEGER", "FLOAT", "RANGE"):
        assert kind not in text
    names = {"serve": ("--redis-url URL", "--state-dir DIR"), "load": ("--duration SECONDS",)}
    assert all(shown in text for shown in names.get(command, ()))


def test_help_and_version(run: Callable[..., Result]) -> None:
    assert run("--version").output.startswith("multilane 0.")
    listed = run("--help").output
    assert all(f"  {name} " in listed for name in cli.COMMANDS)
    assert "No such command 'sevre'" in run("sevre").output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str, run: Callable[..., Result]) -> None:
    done = run("completion", shell)
    assert done.exit_code == 0
    assert "_MULTILANE_COMPLETE" in done.output
    variables = {"_MULTILANE_COMPLETE": f"{shell}_complete", "COMP_CWORD": "1"}
    for line, expected in (
        ("multilane re", "rehearse"),
        ("multilane serve --max-a", "--max-active"),
        ("multilane serve --dialect ll", "llamacpp"),
        ("multilane serve --dialect au", "auto"),
        ("multilane check --dialect ll", "llamacpp"),
        ("multilane serve --log-level wa", "warning"),
        ("multilane demo --log-format js", "json"),
    ):
        typed = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        if shell == "fish":
            typed["COMP_CWORD"] = line.split()[-1]
        out = subprocess.run(
            [sys.executable, "-m", "gateway"],
            env=variables | typed | {"PYTHONPATH": ROOT},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert expected in out


def test_commands_are_imported_only_when_run() -> None:
    code = (
        "import sys, json, gateway.cli as c\n"
        "bare = sorted(sys.modules)\n"
        "from click.testing import CliRunner\n"
        "CliRunner().invoke(c.cli, ['--help'])\n"
        "helped = sorted(sys.modules)\n"
        "CliRunner().invoke(c.cli, ['serve', '--port', 'x'])\n"
        "print(json.dumps([bare, helped, sorted(sys.modules)]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": ROOT}, capture_output=True, check=True
    )
    bare, helped, served = json.loads(done.stdout)
    assert "pydantic" not in bare + helped
    assert not [name for name in COSTLY if name in served]


ROOT = __file__.rpartition("/tests/")[0]
