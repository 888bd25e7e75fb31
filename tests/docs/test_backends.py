"""docs/backends.md: its multilane.toml starts and does what it says there, its table is current."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.config.loading import load
from tests.support.client import connect
from tests.support.gateway import running
from tests.support.gateway_stand import answer
from tests.support.upstream import upstream

if TYPE_CHECKING:
    import pytest

    from gateway.config.settings import Settings

TOP = Path(__file__).parents[2]
TEXT = (TOP / "docs" / "backends.md").read_text("utf-8")
[TOML] = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)


def read(where: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """What the document's file sets."""
    monkeypatch.chdir(where)
    for name in re.findall(r'key_env = "(\w+)"', TOML):
        monkeypatch.setenv(name, f"sk-{name}")
    Path("multilane.toml").write_text(TOML, "utf-8")
    return load()


def test_the_table_of_keys_is_current() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "gateway.config.upstream_tables"],
        cwd=TOP,
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout
    _, opened, rest = TEXT.partition("<!-- upstreams -->\n")
    table, closed, _ = rest.partition("<!-- /upstreams -->")
    assert opened, "no table between <!-- upstreams --> and <!-- /upstreams -->"
    assert closed, "no table between <!-- upstreams --> and <!-- /upstreams -->"
    assert table.strip() == printed.strip(), (
        "put in what `python -m gateway.config.upstream_tables` says"
    )


def test_the_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud, azure, house = read(tmp_path, monkeypatch).upstreams
    assert (cloud.name, azure.name, house.name) == ("cloud", "azure", "house")
    assert cloud.fallbacks == ("azure", "house")
    assert {one.retries for one in (cloud, azure, house)} == {1}
    assert (cloud.dialect, azure.dialect, house.dialect) == ("auto", "azure", "vllm")
    assert cloud.key is not None
    assert cloud.key.get_secret_value() == "sk-OPENAI_API_KEY"


async def test_the_file_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read(tmp_path, monkeypatch)
    async with AsyncExitStack() as stack:
        fakes = {
            one.name: await stack.enter_async_context(upstream()) for one in settings.upstreams
        }
        moved = tuple(
            one.model_copy(
                update={"url": fakes[one.name].url, "retries": 0}
                | ({"dialect": "openai"} if one.dialect == "auto" else {})  # known by its real url
            )
            for one in settings.upstreams
        )
        settings = settings.model_copy(update={"upstreams": moved})
        url = await stack.enter_async_context(running(settings))
        client = await stack.enter_async_context(connect(url))

        async def asked(name: str, **create: Any) -> Any:
            await client.create("a", **create)
            return await fakes[name].next()

        for name, model, meant in (
            ("cloud", "gpt-5", "gpt-5"),
            ("house", "fast", "qwen3-4b"),
            ("house", None, "qwen3-4b"),
        ):
            exchange = await asked(name, model=model)
            assert exchange.body["model"] == meant
            await answer(exchange)
            assert (await client.ended("a"))["model"] == (model or "fast")
        for model, at_azure in (("o3", "our-o3"), ("gpt-5", "our-gpt")):
            await (await asked("cloud", model=model)).reply(503, b"busy")
            exchange = await fakes["azure"].next()
            assert exchange.body["model"] == at_azure
            assert exchange.headers["api-key"] == "sk-AZURE_KEY"
            await exchange.reply(429, b"later")
            exchange = await fakes["house"].next()
            assert exchange.body["model"] == "qwen3-4b"
            assert exchange.headers["x-team"] == "research"
            await answer(exchange)
            assert (await client.ended("a"))["model"] == model
        await client.create("a", model="claude")
        message = (await client.error("a"))["error"]["message"]
        assert message.endswith("Known: gpt-*, o3, our-gpt, qwen3-4b, fast.")
