"""`multilane load` against the gateway itself, with the rehearsal backend behind it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from gateway.config.settings import Settings
from gateway.process.children import spawn
from tests.load.calls import invoke
from tests.support.gateway import running

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def backend() -> Iterator[str]:
    child = spawn([sys.executable, "-m", "gateway", "rehearse", "--port", "0", "--rate", "400"])
    try:
        yield child.ready("ready ", 60)
    finally:
        child.stop()


@pytest.mark.parametrize("boundary", ["text", "item"])
async def test_steers_forks_and_creates_ahead(backend: str, boundary: str) -> None:
    settings = Settings.model_validate(
        {"upstream": backend, "model": "rehearse", "steer_boundary": boundary}
    )
    async with running(settings) as url:
        options = ["--steer-share", "0.5", "--fork-share", "0.3", "--ahead", "--json"]
        result = await invoke(url, *options)
    found = json.loads(result.stdout)
    assert found["violations"]["first"] == []
    assert (result.exit_code, found["errors"]) == (0, {})
    steers, responses = found["steers"], found["responses"]
    assert steers["sent"] >= 3
    assert steers["unsettled"] == 0
    assert steers["accepted"] >= steers["committed"] == responses["successors"]
    assert steers["cut"] == responses["incomplete"]
    assert responses["completed"] + responses["incomplete"] == 18 + responses["successors"]
    assert steers["shown"] > 0
