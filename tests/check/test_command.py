"""`multilane check` as people and scripts run it, mostly against the rehearsal backend."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anyio import to_thread
from click.testing import CliRunner

from gateway.cli import cli
from gateway.tools.check.examination import PROBES
from gateway.tools.check.findings import ESSENTIAL, SupportLevel
from gateway.tools.check.repairs import RULES
from tests.check.odd import Good, served

if TYPE_CHECKING:
    from click.testing import Result

    from tests.support.exchange import Exchange
    from tests.support.upstream import ScriptedUpstream

DOCS = (Path(__file__).parents[2] / "docs" / "check.md").read_text("utf-8")
NAMES = ["dialect", "models", *PROBES]


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("MULTILANE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


async def run(*words: str, **env: str) -> Result:
    return await to_thread.run_sync(
        lambda: CliRunner().invoke(cli, ["check", *words], env={"COLUMNS": "120", **env})
    )


async def test_the_rehearsal_supports_all(rehearsal: str) -> None:
    result = await run(rehearsal)
    assert result.exit_code == 0, result.output
    assert "openai (its server header is multilane-rehearse)" in result.stdout
    for name in NAMES:
        assert f"│ {name} " in result.stdout
    assert "lanes and steering work" in result.stdout
    assert result.stderr == "", "a terminal would see what is tried, a script does not"


async def test_json_is_one_object_of_a_known_shape(rehearsal: str) -> None:
    result = await run(rehearsal, "--json")
    assert result.exit_code == 0
    [line] = result.stdout.splitlines()
    numbers = json.loads(line)
    keys = {"version", "url", "dialect", "reason", "model", "works", "checks", "repairs"}
    assert numbers.keys() == keys
    assert (numbers["version"], numbers["works"]) == (1, True)
    assert (numbers["url"], numbers["dialect"]) == (rehearsal, "openai")
    assert (numbers["reason"], numbers["model"]) == (
        "its server header is multilane-rehearse",
        "rehearse",
    )
    assert [row["name"] for row in numbers["checks"]] == NAMES
    for row in numbers["checks"]:
        assert row.keys() == {"name", "verdict", "detail", "seconds", "essential"}
        assert row["verdict"] in set(SupportLevel)
        assert row["essential"] == (row["name"] in ESSENTIAL)
        assert row["detail"]
        assert row["seconds"] >= 0
    verdicts = {row["name"]: row["verdict"] for row in numbers["checks"]}
    assert verdicts.pop("cancel on close") == "unknown"
    assert set(verdicts.values()) == {"yes"}
    # Its one liberty is the reference's own: a seal that is announced before it is whole.
    assert [(row["name"], row["what"]) for row in numbers["repairs"]] == [
        ("filled_items", RULES["filled_items"])
    ]
    assert all(isinstance(row["count"], int) for row in numbers["repairs"])


def refusing(body: dict[str, Any]) -> tuple[int, Any] | None:
    return (400, {"error": {"message": "no history"}}) if "assistant" in str(body) else None


async def test_exit_code_1_when_something_essential_does_not_work() -> None:
    async with served(Good(refuse=refusing)) as url:
        shown, told = await run(url), await run(url, "--json")
    assert (shown.exit_code, told.exit_code) == (1, 1)
    assert "lanes or steering do not work: replay, steering" in shown.stdout
    assert json.loads(told.stdout)["works"] is False


async def test_exit_code_2_when_nobody_is_there(free: ScriptedUpstream) -> None:
    result = await run(free.url, "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    [line] = result.stderr.splitlines()
    why = "The backend could not be reached: Connection refused."
    assert line == f"Error: {free.url}: {why}"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["b.example/v1"], "URL: must be an http(s) base URL such as"),
        (["http://b/v1", "--dialect", "latin"], "--dialect: must be one of auto, "),
        (["http://b/v1", "--timeout", "0"], "Invalid value for '--timeout'"),
        ([], "Missing argument 'URL'"),
    ],
)
async def test_exit_code_2_on_bad_arguments(words: list[str], line: str) -> None:
    result = await run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert line in result.stderr


async def test_a_dialect_that_is_named_is_not_looked_for() -> None:
    backend = Good(owner="nobody")
    async with served(backend) as url:
        result = await run(url, "--dialect", "SGLang", "--model", "mine", "--json")
    numbers = json.loads(result.stdout)
    assert (numbers["dialect"], numbers["reason"]) == ("sglang", "as --dialect says")
    assert {body["model"] for body in backend.asked} == {"mine"}


@pytest.mark.parametrize("dialect", ["auto", "azure"])
async def test_the_key_comes_from_the_environment_or_a_file(dialect: str, tmp_path: Path) -> None:
    seen: set[tuple[str | None, str | None]] = set()

    class Keyed(Good):
        async def __call__(self, exchange: Exchange) -> None:
            headers = exchange.headers
            seen.add((headers.get("authorization"), headers.get("api-key")))
            await super().__call__(exchange)

    place = tmp_path / "key"
    place.write_text("hush\n")
    async with served(Keyed()) as url:
        for env in ({"UPSTREAM_KEY": "hush"}, {"UPSTREAM_KEY_FILE": str(place)}):
            named = {f"MULTILANE_{name}": value for name, value in env.items()}
            result = await run(url, "--dialect", dialect, **named)
            assert result.exit_code == 0, result.output
            assert "hush" not in result.output
    assert seen == {("Bearer hush", None) if dialect == "auto" else (None, "hush")}


def test_the_documents_name_all_there_is() -> None:
    listed = re.findall(r"^\| `?([^`|]+?)`? \|", DOCS, re.MULTILINE)
    assert {*NAMES, *RULES} <= set(listed)
    for name in ESSENTIAL:
        assert re.search(rf"^\| {name} \| yes \|", DOCS, re.MULTILINE), name
