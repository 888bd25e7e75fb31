"""A start with a keys file, or with a key where everybody can read it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gateway.keys.keys_file import digest_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

GOOD = f"acme: {digest_of(b'sk-a').hex()}\n"


def test_a_key_on_the_command_line_is_warned_of(
    run: Callable[..., Result], started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = run("serve", "--api-key", "sk-hush")
    assert said.exit_code == 0
    assert "WARNING multilane: --api-key: every user of this machine can read" in said.stderr
    assert "hush" not in said.output
    monkeypatch.setenv("MULTILANE_API_KEYS", "sk-hush")
    assert "--api-key" not in run("serve").output
    assert len(started) == 2


def test_a_keys_file_lets_it_listen_elsewhere(
    run: Callable[..., Result], started: list[Any]
) -> None:
    Path("keys").write_text(GOOD)
    assert run("serve", "--host", "0.0.0.0", "--keys-file", "keys").exit_code == 0
    assert started[0][0].keys_file == "keys"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "'keys' cannot be read: No such file or directory"),
        (GOOD + GOOD, "'keys': line 2: the name acme is on line 1 already"),
        (GOOD[:-2], "'keys': line 1: does not end with a line break"),
        ("acme: hush\n", "'keys': line 1: acme: must have the SHA-256"),
    ],
)
def test_a_wrong_file_is_no_start(
    run: Callable[..., Result], started: list[Any], content: str | None, why: str
) -> None:
    if content is not None:
        Path("keys").write_text(content)
    refused = run("serve", "--keys-file", "keys")
    assert refused.exit_code == 2
    assert f"--keys-file: {why}" in refused.stderr
    assert "hush" not in refused.output
    assert len(refused.stderr.splitlines()) == 1
    assert not started


def test_a_directory_is_no_file(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("keys").mkdir()
    monkeypatch.setenv("MULTILANE_KEYS_FILE", "keys")
    refused = run("serve")
    assert refused.exit_code == 2
    assert "--keys-file: 'keys' cannot be read: Is a directory" in refused.stderr
