"""The start line names the upstreams, and no key."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tests.support.client import connect
from tests.support.events import reply
from tests.support.serve_process import process
from tests.support.wire_stand import started

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def tables(url: str) -> str:
    return f"""
[[upstreams]]
name = "cloud"
url = "{url}?k=hush"
key_env = "CLOUD_KEY"
dialect = "openai"
models = ["m"]
concurrency = 1

[[upstreams]]
name = "bare"
url = "http://127.0.0.1:9"
"""


async def test_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUD_KEY", "sk-hush")
    async with process(tmp_path, config=tables) as own:
        async with connect(own.url) as client:
            lane = await started(own.fake, client, "a")
            assert lane.exchange.headers["authorization"] == "Bearer sk-hush"
            await client.create("b")
            await lane.ends()
            second = await own.fake.next()
            await second.send(*reply("ok"))
            await client.ended("b")
        own.child.send_signal(signal.SIGTERM)
        said = await own.ends()
    places = f"cloud: {own.fake.url}, bare: http://127.0.0.1:9"
    assert f"ws://127.0.0.1:{own.port}/v1/responses -> {places}\n" in said
    assert "the url of bare has no path: http://127.0.0.1:9/responses is asked" in said
    assert "hush" not in said


async def test_flags(tmp_path: Path) -> None:
    async with process(tmp_path) as own:
        async with connect(own.url):
            pass  # now it serves, and hears signals
        own.child.send_signal(signal.SIGTERM)
        said = await own.ends()
    assert f"ws://127.0.0.1:{own.port}/v1/responses -> {own.fake.url}\n" in said
