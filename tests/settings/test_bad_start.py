"""A setting that cannot be started with: one line that names it and says what is allowed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

URL = "must be an http(s) base URL such as http://127.0.0.1:8000/v1"
KEY = "a key must be visible ASCII characters without spaces, at least one"
NUMBER = "must be an integer from 1 to 1000000000"
SIZE = "must be a size such as 8MiB, 512KiB or 1048576 (bytes), at least 1KiB"

FLAGS = [
    ("--port x", "--port: must be an integer from 0 to 65535, not 'x'"),
    ("--port 70000", "--port: must be an integer from 0 to 65535, not '70000'"),
    ("--port=", "--port: must not be empty: an integer from 0 to 65535"),
    ("--max-active 0", f"--max-active: {NUMBER}, not '0'"),
    ("--max-active 1.5", f"--max-active: {NUMBER}, not '1.5'"),
    ("--max-age 0", "--max-age: must be seconds, more than 0 and up to 1000000000, not '0'"),
    ("--drain-timeout nan", "--drain-timeout: must be seconds from 0 to 1000000000, not 'nan'"),
    (
        "--idle-timeout inf",
        "--idle-timeout: must be seconds, more than 0 and up to 1000000000, not 'inf'",
    ),
    ("--max-frame-bytes 64MB", f"--max-frame-bytes: {SIZE}, not '64MB'"),
    ("--max-frame-bytes 64", f"--max-frame-bytes: {SIZE}, not '64'"),
    ("--max-frame-bytes -1", f"--max-frame-bytes: {SIZE}, not '-1'"),
    ("--log-level loud", "--log-level: must be debug, info, warning or error, not 'loud'"),
    ("--log-format xml", "--log-format: must be text or json, not 'xml'"),
    ("--dialect latin", "--dialect: must be one of auto, llamacpp, openai"),
    (
        "--upstream-transport websocket --dialect llamacpp",
        (
            "--upstream-transport: backends of dialect llamacpp do not speak over WebSocket;"
            " those of openai do"
        ),
    ),
    ("--steering native", "--steering: native steering needs the transport websocket"),
    ("--upstream b.example/v1", f"--upstream: {URL}"),
    ("--upstream ftp://b.example", f"--upstream: {URL}"),
    ("--upstream http:///v1", f"--upstream: {URL}"),
    ("--upstream http://b:99999/v1", f"--upstream: {URL}"),
    ("--upstream http://[::1/v1", f"--upstream: {URL}"),
    ("--upstream http://b..example/v1", f"--upstream: {URL}"),
    (f"--upstream http://{'b' * 64}.example/v1", f"--upstream: {URL}"),
    ("--upstream http://u:hush@b/v1", f"--upstream: {URL}, without user or fragment"),
    (
        "--upstream http://b.example/v1/responses/",
        f"--upstream: {URL}: give the base, without /responses, which the gateway appends",
    ),
    (
        "--upstream http://b.example/v1/chat/completions",
        f"--upstream: {URL}: give the base, without /chat/completions, which the gateway appends",
    ),
    ("--host 127.0.0.1:80", "--host: must be a host name or an IP address, without a port"),
    (
        "--host 0.0.0.0",
        (
            "--host: 0.0.0.0 is not loopback and there are no keys: set MULTILANE_KEYS_FILE"
            " or MULTILANE_API_KEYS, or --allow-open to let everyone in"
        ),
    ),
    ("--api-key=", f"--api-key: {KEY}"),
    ("--api-key good --api-key hüsh", f"--api-key: {KEY}"),
    (
        "--allow-origin app.example",
        "--allow-origin: must be origins such as https://app.example.com, or *",
    ),
    (
        "--allow-origin https://*.example.com",
        "--allow-origin: must be origins such as https://app.example.com, or *",
    ),
    ("--model=", "--model: must not be empty"),
    ("--upstream=", f"--upstream: {URL}"),
    ("--config none.toml", "none.toml: cannot be read: No such file or directory"),
]
VARIABLES = [
    ("PORT", "", "MULTILANE_PORT: must not be empty: an integer from 0 to 65535"),
    ("ALLOW_OPEN", "maybe", "MULTILANE_ALLOW_OPEN: must be true or false, not 'maybe'"),
    ("API_KEYS", "", f"MULTILANE_API_KEYS: {KEY}"),
    ("API_KEYS", "hush,,b", f"MULTILANE_API_KEYS: {KEY}"),
    ("UPSTREAM_KEY", "hush hush", f"MULTILANE_UPSTREAM_KEY: {KEY}"),
    (
        "API_KEYS_FILE",
        "none",
        "MULTILANE_API_KEYS_FILE: 'none' cannot be read: No such file or directory",
    ),
    (
        "API_KEYS_FILE",
        "empty",
        "MULTILANE_API_KEYS_FILE: 'empty' must hold keys, one per line; it has 0",
    ),
    ("API_KEYS_FILE", "binary", "MULTILANE_API_KEYS_FILE: 'binary' is not a text file in UTF-8"),
    ("API_KEYS_FILE", "spaced", f"MULTILANE_API_KEYS_FILE: {KEY}"),
    ("UPSTREAM_KEY_FILE", "two", "MULTILANE_UPSTREAM_KEY_FILE: 'two' must hold one key; it has 2"),
    ("COMPACTION_KEYS", "hush hush", f"MULTILANE_COMPACTION_KEYS: {KEY}"),
    (
        "COMPACTION_KEYS",
        "hush-hush-hush-hush,hush",
        "MULTILANE_COMPACTION_KEYS: each secret must have at least 16 characters",
    ),
    ("API_KEY", "hush", "MULTILANE_API_KEY is not a setting; did you mean MULTILANE_API_KEYS?"),
    ("ZZZ", "hush", "MULTILANE_ZZZ is not a setting"),
]
FILES = [
    ("port = true", "port: must be an integer from 0 to 65535, not 'True'"),
    ("model = 5", "model: must be text, not '5'"),
    ("allow_origin = 5", "allow_origin: must be a list of text, not '5'"),
    ("max_actve = 5", "max_actve is not a setting; did you mean max_active?"),
    ("[server]\nport = 5", "server is not a setting"),
    ('host = ["hush"]', "host: must be text, not a list"),
    ('[log_level]\nkey = "hush"', "log_level: must be debug, info, warning or error, not a table"),
    (
        '[[upstream]]\nname = "a"\nkey = "hush"',
        "upstream: must be text, not a list; tables begin with [[upstreams]]",
    ),
    (
        '[upstream]\nkey = "hush"',
        "upstream: must be text, not a table; tables begin with [[upstreams]]",
    ),
    ('"a\\nb\\u001b[31m" = 5', "'a\\nb\\x1b[31m' is not a setting"),
    ("port = " + "[" * 5000, "is not TOML: nested too deeply"),
    (
        'api_keys = ["hush"]',
        (
            "api_keys is a secret and is not read from here;"
            " set MULTILANE_API_KEYS or MULTILANE_API_KEYS_FILE"
        ),
    ),
    (
        'upstream_key = "hush"',
        (
            "upstream_key is a secret and is not read from here;"
            " set MULTILANE_UPSTREAM_KEY or MULTILANE_UPSTREAM_KEY_FILE"
        ),
    ),
    ("port = ", "is not TOML: Invalid value (at line 1, column 8)"),
]


def refused(result: Result, line: str, started: list[Any]) -> None:
    assert result.exit_code == 2
    assert result.output == f"Error: {line}\n"
    assert "hush" not in result.output
    assert not started


@pytest.mark.parametrize(("words", "line"), FLAGS)
def test_flags(words: str, line: str, run: Callable[..., Result], started: list[Any]) -> None:
    refused(run("serve", *words.split(" ")), line, started)


@pytest.mark.parametrize(("name", "value", "line"), VARIABLES)
def test_variables(
    name: str,
    value: str,
    line: str,
    run: Callable[..., Result],
    started: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("empty").write_text("\n \n")
    Path("binary").write_bytes(b"\xff\xfe")
    Path("spaced").write_text("hush hush\n")
    Path("two").write_text("hush\nhush\n")
    monkeypatch.setenv(f"MULTILANE_{name}", value)
    refused(run("serve"), line, started)


@pytest.mark.parametrize(("content", "line"), FILES)
def test_file(content: str, line: str, run: Callable[..., Result], started: list[Any]) -> None:
    Path("multilane.toml").write_text(content + "\n")
    refused(run("serve"), f"multilane.toml: {line}", started)


def test_a_secret_from_two_places(
    run: Callable[..., Result], started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MULTILANE_API_KEYS", "hush")
    monkeypatch.setenv("MULTILANE_API_KEYS_FILE", "keys")
    line = "MULTILANE_API_KEYS_FILE: set either this or MULTILANE_API_KEYS, not both"
    refused(run("serve"), line, started)


def test_two_keys_for_the_backend(
    run: Callable[..., Result], started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MULTILANE_UPSTREAM_KEY", "hush")
    line = (
        "--forward-authorization: cannot go with MULTILANE_UPSTREAM_KEY:"
        " the backend is shown the client's key or the gateway's"
    )
    refused(run("serve", "--forward-authorization"), line, started)
    assert run("serve", "--no-forward-authorization").exit_code == 0


def test_in_a_process_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "serve", "--host", "0.0.0.0"],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: --host: 0.0.0.0 is not loopback")
    assert done.stderr.count("\n") == 1
