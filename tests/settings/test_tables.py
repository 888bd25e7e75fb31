"""`[[upstreams]]` in multilane.toml: what is read, what is inherited, each bad start in a line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr

from gateway.config.configured_upstreams import default_model, upstreams
from gateway.config.loading import load
from gateway.config.settings import Settings
from gateway.config.upstream_settings import UpstreamSettings
from tests.settings.test_bad_start import KEY, URL, refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

TWO = """
[[upstreams]]
name = "cloud"
url = "https://api.example/v1/"
key_env = "CLOUD_KEY"
models = ["gpt-*", "o3"]
fallbacks = ["local"]
headers = { "X-Team" = "a b" }

[[upstreams]]
name = "local"
url = "http://127.0.0.1:1/v1?api-version=2025-04-01"
dialect = "llamacpp"
key_file = "key"
aliases = { fast = "qwen3-4b" }
default = "fast"
concurrency = 2
idle_timeout = 5
max_event_bytes = "1MiB"
steerable = false
"""


def write(content: str) -> None:
    Path("multilane.toml").write_text(content)


@pytest.fixture(autouse=True)
def key_places(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys as the tables of these tests want them."""
    monkeypatch.setenv("CLOUD_KEY", "sk-hush")
    monkeypatch.setenv("SPACED_KEY", "hush hush")
    (clean / "key").write_text("local-hush\n")
    (clean / "two").write_text("hush\nhush\n")


def test_two_tables() -> None:
    write("idle_timeout = 9\nretries = 0\n" + TWO)
    cloud, local = load().upstreams
    assert cloud == UpstreamSettings(
        name="cloud",
        url="https://api.example/v1",
        key=SecretStr("sk-hush"),
        key_env="CLOUD_KEY",
        models=("gpt-*", "o3"),
        fallbacks=("local",),
        headers={"x-team": "a b"},
        idle_timeout=9.0,
        retries=0,
    )
    assert local == UpstreamSettings(
        name="local",
        url="http://127.0.0.1:1/v1?api-version=2025-04-01",
        dialect="llamacpp",
        key=SecretStr("local-hush"),
        key_file="key",
        aliases={"fast": "qwen3-4b"},
        default="fast",
        concurrency=2,
        idle_timeout=5.0,
        max_event_bytes=1 << 20,
        steerable=False,
        retries=0,
    )
    assert "hush" not in repr(load())


def test_what_a_table_leaves_out_may_come_from_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    write(TWO)
    monkeypatch.setenv("MULTILANE_RETRIES", "7")
    settings = load({"steer_boundary": "item", "dialect": "llamacpp"})
    assert [one.retries for one in settings.upstreams] == [7, 7]
    assert [one.steer_boundary for one in settings.upstreams] == ["item", "item"]
    assert [one.dialect for one in settings.upstreams] == ["llamacpp", "llamacpp"]


def test_a_create_without_a_model() -> None:
    write(TWO)
    assert default_model(load()) == "fast"
    assert default_model(load({"model": "o3"})) == "o3"
    assert default_model(Settings(upstream="http://b.example/v1")) is None


def test_the_flags_are_one_upstream_without_limits_of_its_own() -> None:
    [one] = upstreams(load({"upstream": "http://b.example/v1/?v=1", "retries": "4"}))
    assert (one.name, one.url, one.retries) == ("default", "http://b.example/v1?v=1", 4)
    assert (one.models, one.concurrency, one.fallbacks) == ((), None, ())
    assert one.place == "http://b.example/v1"


def test_what_the_operator_may_have_got_wrong() -> None:
    write(TWO + table(name="bare"))
    hints = [[one.hint(status) for status in (401, 403, 404, 500)] for one in load().upstreams]
    assert [one[0] for one in hints] == [one[1] for one in hints]
    assert [one[0] for one in hints] == [
        "is CLOUD_KEY right?",
        "is the key in key right?",
        "it is shown no key: set key_env or key_file",
    ]
    assert {(one[2], one[3]) for one in hints} == {("is its url right?", None)}


def test_a_key_may_be_in_a_variable_of_the_gateways_own_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = '[[upstreams]]\nname = "a"\nurl = "http://a.example/v1"\nkey_env = '
    for name in ("MULTILANE_CLOUD_KEY", "MULTILANE_UPSTREAM_KEY"):
        monkeypatch.setenv(name, "hush-2")
        write(f'{table}"{name}"\n')
        assert load().upstreams[0].key == SecretStr("hush-2")
        monkeypatch.delenv(name)


def table(**keys: Any) -> str:
    """A table with what is needed, and these."""
    least = {"name": "a", "url": "http://a.example/v1"}
    lines = [f"{key} = {value!r}" for key, value in {**least, **keys}.items() if value is not None]
    return "\n".join(["[[upstreams]]", *lines, ""])


A_FEW = "0123456789abcdef" * 3
ONE = [
    ({"name": None}, "name: is missing"),
    ({"name": ""}, "name: must not be empty"),
    ({"name": 5}, "name: must be text, not '5'"),
    ({"url": None}, "url: is missing"),
    ({"url": "b.example"}, f"url: {URL}"),
    ({"url": "http://u:hush@b/v1"}, f"url: {URL}, without user or fragment"),
    (
        {"url": "http://b/v1/responses?k=hush"},
        f"url: {URL}: give the base, without /responses, which the gateway appends",
    ),
    ({"url": 5}, f"url: must be {'text'}"),
    ({"modles": ["hush"]}, "modles is not a key of [[upstreams]]; did you mean models?"),
    (
        {"key": "hush"},
        (
            "key: is a secret and is not read from here;"
            " set key_env (a variable's name) or key_file (a path)"
        ),
    ),
    ({"key_env": "NO_SUCH_KEY"}, "key_env: NO_SUCH_KEY is not set, or empty"),
    (
        {"key_env": "sk-hush"},
        "key_env: must be the name of a variable that holds the key, not the key itself",
    ),
    ({"key_env": f"hush{A_FEW}"}, "key_env: a variable is not set, or empty"),
    ({"key_env": "SPACED_KEY"}, f"key_env: {KEY}"),
    ({"key_file": "none"}, "key_file: 'none' cannot be read: No such file or directory"),
    ({"key_file": "/dev/zero"}, "key_file: '/dev/zero' is too large to hold keys"),
    ({"key_file": "two"}, "key_file: 'two' must hold one key; it has 2"),
    (
        {"key_file": "key", "key_env": "CLOUD_KEY"},
        "key_file: set either this or key_env, not both",
    ),
    ({"models": "gpt-5"}, "models: must be a list of text, not 'gpt-5'"),
    ({"models": [""]}, "models[0]: must be a list of text"),
    ({"name": ["hush"]}, "name: must be text, not a list"),
    ({"aliases": ["a"]}, "aliases: must be a table of text, not a list"),
    ({"concurrency": 0}, "concurrency: must be an integer from 1 to 1000000000, not '0'"),
    ({"dialect": "latin"}, "dialect: must be one of auto, llamacpp, openai"),
    ({"transport": "pigeon"}, "transport: must be http or websocket, not 'pigeon'"),
    (
        {"transport": "websocket", "dialect": "llamacpp"},
        ("transport: backends of dialect llamacpp do not speak over WebSocket; those of openai do"),
    ),
    ({"steering": "native"}, "steering: native steering needs the transport websocket"),
    ({"retries": 11}, "retries: must be an integer from 0 to 10, not '11'"),
    ({"idle_timeout": 0}, "idle_timeout: must be seconds, more than 0 and up to 1000000000"),
    ({"fallbacks": ["a"]}, "fallbacks: 'a' is this upstream itself"),
    ({"fallbacks": ["b"]}, "fallbacks: 'b' is no upstream"),
]
HEADERS = [
    ("Content-Length", "1", "'Content-Length' is the gateway's own to send"),
    ("Host", "a", "'Host' is the gateway's own to send"),
    (
        "Authorization",
        "Bearer hush",
        (
            "'Authorization' is a secret and is not read from here;"
            " set key_env (a variable's name) or key_file (a path)"
        ),
    ),
    ("a b", "hush", "'a b' cannot be sent: it has signs that no header may have"),
    ("x-a", "hush☃", "'x-a' cannot be sent: it has signs that no header may have"),
]
SEVERAL = [
    (table() + table(), "[1].name: 'a' is another upstream's already"),
    (
        table() + table(name="cloud") + table(name="c", fallbacks=["clod"]),
        "[2].fallbacks: 'clod' is no upstream; did you mean cloud?",
    ),
    (
        table(models=["m", "x"]) + table(name="b", models=["y*", "x"]),
        "[1].models: 'x' is what a takes",
    ),
    (
        table(models=["m"]) + '[[upstreams]]\nname = "b"\nurl = "http://b"\naliases = {m = "x"}\n',
        "[1].aliases: 'm' is what a takes",
    ),
    (
        table(models=["gpt-*"]) + table(name="b", default="gpt-oss"),
        "[1].default: 'gpt-oss' is what a takes",
    ),
    ("upstreams = 5", ": must be tables, each beginning with [[upstreams]]"),
    ('[upstreams]\nname = "a"', ": must be tables, each beginning with [[upstreams]]"),
]


@pytest.mark.parametrize(("keys", "line"), ONE)
def test_a_bad_table(
    keys: dict[str, Any], line: str, run: Callable[..., Result], started: list[Any]
) -> None:
    write(table(name="first") + table(**keys))
    shown = run("serve").output.partition(" and up to ")[0].rstrip()
    wanted = f"Error: multilane.toml: upstreams[1].{line}".partition(" and up to ")[0]
    assert shown == wanted
    assert "hush" not in shown
    assert not started


@pytest.mark.parametrize(("name", "value", "line"), HEADERS)
def test_a_bad_header(
    name: str, value: str, line: str, run: Callable[..., Result], started: list[Any]
) -> None:
    write(table() + f'headers = {{ "{name}" = "{value}" }}\n')
    refused(run("serve"), f"multilane.toml: upstreams[0].headers: {line}", started)


@pytest.mark.parametrize(("content", "line"), SEVERAL)
def test_tables_that_do_not_go_together(
    content: str, line: str, run: Callable[..., Result], started: list[Any]
) -> None:
    write(content)
    refused(run("serve"), f"multilane.toml: upstreams{line}", started)


def test_a_default_that_another_takes_may_stand_where_a_model_is_set() -> None:
    write('model = "m"\n' + table(models=["gpt-*"]) + table(name="b", default="gpt-oss"))
    assert load().upstreams[1].default == "gpt-oss"


def test_fallbacks_may_go_in_circles() -> None:
    write(table(fallbacks=["b"]) + table(name="b", fallbacks=["a"]))
    assert [one.fallbacks for one in load().upstreams] == [("b",), ("a",)]


def test_tables_and_the_flags_upstream_exclude_each_other(
    run: Callable[..., Result], started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(table())
    line = "cannot go with [[upstreams]], which have their own"
    refused(run("serve", "--upstream", "http://b.example/v1"), f"--upstream: {line}", started)
    monkeypatch.setenv("MULTILANE_UPSTREAM_KEY", "hush")
    refused(run("serve"), f"MULTILANE_UPSTREAM_KEY: {line}", started)


def test_there_is_no_variable_for_tables(
    run: Callable[..., Result], started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MULTILANE_UPSTREAMS", "[]")
    line = "MULTILANE_UPSTREAMS is not a setting; did you mean MULTILANE_UPSTREAM?"
    refused(run("serve"), line, started)
