"""A real llama.cpp is recognised, checked and served without naming its dialect."""

from __future__ import annotations

import json
import logging
import sys

import anyio
import pytest

from gateway.config.settings import Settings
from gateway.process.llama import MODEL
from tests.support.client import connect
from tests.support.gateway import running

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


async def test_what_llamacpp_supports(llama_url: str) -> None:
    command = [sys.executable, "-m", "gateway", "check", llama_url, "--json"]
    done = await anyio.run_process(command, check=False)
    assert done.returncode == 0, done.stderr.decode()
    numbers = json.loads(done.stdout)
    assert (numbers["dialect"], numbers["model"]) == ("llamacpp", MODEL)
    assert numbers["reason"] == "its server header is llama.cpp"
    found = {row["name"]: (row["verdict"], row["detail"]) for row in numbers["checks"]}
    for name in ("models", "events", "usage", "errors", "at once", "replay"):
        assert found[name][0] == "yes", found[name]
    for name in ("text", "steering"):  # partly: in one piece, as such a small model may choose
        assert found[name][0] in ("yes", "partly"), found[name]
    assert found["token limit"] == ("no", "it says completed; the gateway makes it incomplete")
    assert found["previous_response_id"] == ("no", "refused; the gateway sends the history")
    assert found["images"][0] == found["reasoning"][0] == "no"
    amiss = {row["name"] for row in numbers["repairs"]}
    assert {"no_numbers", "no_indices", "thin_snapshots", "thin_usage", "no_logprobs"} <= amiss


async def test_what_it_supports_in_chat(llama_url: str) -> None:
    command = [sys.executable, "-m", "gateway", "check", llama_url, "--dialect", "chat", "--json"]
    done = await anyio.run_process(command, check=False)
    assert done.returncode == 0, done.stderr.decode()
    numbers = json.loads(done.stdout)
    found = {row["name"]: row["verdict"] for row in numbers["checks"]}
    for name in ("models", "usage", "errors", "token limit", "at once", "replay"):
        assert found[name] == "yes", numbers["checks"]
    assert [row["name"] for row in numbers["repairs"]] == ["converted"]


async def test_it_is_served_as_what_it_is(llama_url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="multilane")
    async with running(Settings(upstream=llama_url)) as url, connect(url) as client:
        await client.create(model=MODEL, input="Tell me a story.", max_output_tokens=16)
        response = await client.ended()
    # Only its own dialect knows that it says `completed` at the limit.
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    told = "upstream default: dialect llamacpp (its server header is llama.cpp)"
    assert told in [one.getMessage() for one in caplog.records]
