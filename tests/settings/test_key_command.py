"""`multilane key`: makes, takes over, lists and revokes keys in a file that stays whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from gateway.cli import cli
from gateway.keys.keys_file import digest_of, key_id, parse

if TYPE_CHECKING:
    from click.testing import Result

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULTILANE_KEYS_FILE", "keys")


def run(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["key", *words], input=stdin, prog_name="multilane")


def test_a_new_key_is_printed_and_its_hash_is_kept() -> None:
    made = run("new", "acme", "--tenant", "a", "--model", "small", "--model", "gpt-*")
    assert made.exit_code == 0, made.output
    secret = made.stdout.strip()
    content = Path("keys").read_bytes()
    assert secret.encode() not in content
    (key,) = parse(content)
    assert (key.name, key.tenant, key.models) == ("acme", "a", ("small", "gpt-*"))
    assert key.digest == digest_of(secret.encode())
    assert Path("keys").stat().st_mode & 0o777 == 0o600


def test_no_two_keys_are_alike() -> None:
    assert run("new", "a").stdout != run("new", "b").stdout


def test_a_key_that_exists_brings_its_records_along() -> None:
    assert run("add", "acme", stdin="sk-old\n").exit_code == 0
    (key,) = parse(Path("keys").read_bytes())
    assert key.digest == digest_of(b"sk-old")
    assert key.formerly == (key_id("sk-old"),)


def test_what_a_key_brought_along_stays_with_the_tenant_when_it_is_revoked() -> None:
    run("add", "acme", stdin="sk-old\n")
    run("add", "acme-2", "--tenant", "acme", stdin="sk-older\n")
    run("new", "acme-3", "--tenant", "acme")
    run("new", "other")
    former = (key_id("sk-old"), key_id("sk-older"))
    assert run("revoke", "acme").exit_code == 0
    assert run("revoke", "acme-2").exit_code == 0
    left, other = parse(Path("keys").read_bytes())
    assert sorted(left.formerly) == sorted(former)
    assert other.formerly == ()


def test_a_line_by_hand_leaves_what_it_brought_along_to_another() -> None:
    run("new", "acme")
    with Path("keys").open("a") as file:
        file.write(f"by-hand: {digest_of(b'k').hex()} tenant=acme formerly={'0' * 16}\n")
    assert run("revoke", "by-hand").exit_code == 0
    (left,) = parse(Path("keys").read_bytes())
    assert left.formerly == ("0" * 16,)


def test_limits_are_the_tenants_and_stay_with_it() -> None:
    made = run("new", "acme", "--creates", "60", "--running", "0", "--tokens", "unlimited")
    assert made.exit_code == 0, made.output
    said = (("running", 0), ("creates", 60), ("tokens", None))
    run("new", "acme-2", "--tenant", "acme", "--connections", "5")
    first, second = parse(Path("keys").read_bytes())
    assert first.limits == said
    assert second.limits == (("connections", 5), *said)
    row = run("list").stdout.splitlines()[-1]
    assert row.split()[-1] == "connections=5,running=0,creates=60,tokens=unlimited"
    assert run("revoke", "acme-2").exit_code == 0
    (left,) = parse(Path("keys").read_bytes())
    assert left.limits == second.limits
    run("new", "other")
    assert parse(Path("keys").read_bytes())[-1].limits == ()


@pytest.mark.parametrize("stdin", ["", "two words\n", "hüsh\n"])
def test_what_is_no_key_is_not_added(stdin: str) -> None:
    refused = run("add", "acme", stdin=stdin)
    assert refused.exit_code == 1
    assert "visible ASCII" in refused.output
    assert not Path("keys").exists()


def test_listing_and_revoking() -> None:
    run("new", "acme")
    text = Path("keys").read_text() + "# a note\n"
    Path("keys").write_text(text)
    Path("keys").chmod(0o640)
    run("new", "ci", "--tenant", "acme", "--expires", "2001-01-01", "--model", "m")
    rows = [line.split() for line in run("list").stdout.splitlines()]
    assert rows == [
        ["NAME", "TENANT", "EXPIRES", "MODELS", "LIMITS"],
        ["acme", "acme", "never", "all", "default"],
        ["ci", "acme", "2001-01-01T00:00:00Z", "(over)", "m", "default"],
    ]
    assert run("revoke", "ci").exit_code == 0
    assert Path("keys").read_text() == text
    assert Path("keys").stat().st_mode & 0o777 == 0o640
    assert run("revoke", "acme").exit_code == 0
    assert parse(Path("keys").read_bytes()) == ()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("new", "acme"), "the name acme is on line 2 already"),
        (("new", "b", "--creates", "-1"), "--creates must be a number from 0 to 1000000000, or un"),
        (("new", "b", "--tokens", "1e3"), "--tokens must be a number from 0"),
        (("new", "a b"), "'a b' is no name"),
        (("new", "b", "--tenant", "a/b"), "'a/b' is no name of a tenant"),
        (("new", "b", "--expires", "soon"), "'soon' is no time"),
        (("new", "b", "--expires", "999999999d"), "is no time"),
        (("new", "b", "--model", "a,"), "names with commas between"),
        (("new", "b", "--model", "a b"), "is no option"),
        (("revoke", "nobody"), "there is no key called 'nobody'"),
        (("list", "--keys-file", "none"), "'none' cannot be read: No such file or directory"),
        (("new", "b", "--keys-file", "none/keys"), "No such file or directory"),
    ],
)
def test_a_refusal_is_one_line_and_changes_nothing(words: tuple[str, ...], why: str) -> None:
    run("new", "acme")
    before = Path("keys").read_bytes()
    refused = run(*words)
    assert refused.exit_code == 1
    assert why in refused.output
    assert len(refused.output.splitlines()) == 1
    assert Path("keys").read_bytes() == before
    assert [path.name for path in Path().iterdir()] == ["keys"]


def test_a_span_of_time() -> None:
    run("new", "a", "--expires", "2h")
    (key,) = parse(Path("keys").read_bytes())
    assert key.expires is not None
    assert not key.expired(key.expires - 1)


def test_a_wrong_file_is_not_touched() -> None:
    Path("keys").write_text("nonsense\n")
    for words in (("new", "a"), ("revoke", "a"), ("list",)):
        refused = run(*words)
        assert refused.exit_code == 1
        assert "'keys': line 1: must be `name: hash`" in refused.output
    assert Path("keys").read_text() == "nonsense\n"


def test_without_a_file_it_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MULTILANE_KEYS_FILE")
    refused = run("list")
    assert refused.exit_code == 2
    assert "--keys-file" in refused.output
    Path("multilane.toml").write_text('keys_file = "named"\n')
    assert run("new", "a").exit_code == 0
    assert Path("named").exists()


def test_many_at_once_lose_nothing(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "gateway", "key", "new"]
    file = ["--keys-file", str(tmp_path / "keys")]
    made = [subprocess.Popen([*words, f"k{n}", *file], cwd=ROOT, stdout=-3) for n in range(4)]
    assert [one.wait() for one in made] == [0] * 4
    assert {key.name for key in parse((tmp_path / "keys").read_bytes())} == {"k0", "k1", "k2", "k3"}
