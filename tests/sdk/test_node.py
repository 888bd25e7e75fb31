"""The official Node SDK's ResponsesWS, driven by node/lanes.mjs."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from tests.support.judge import StreamJudge, validate

pytestmark = pytest.mark.node


async def test_lanes_forks_a_tool_and_an_error(gateway_url: str, node_sdk: list[str]) -> None:
    with anyio.fail_after(60):
        done = await anyio.run_process([*node_sdk, gateway_url], check=False)
    assert done.returncode == 0, done.stderr.decode()
    events: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    judge = StreamJudge()
    for event in events:
        judge.receive(event)
    judge.finish()

    plan, *others = [response.terminal or {} for response in judge.responses.values()]
    forks = [r for r in others if r["previous_response_id"] == plan["id"]]
    assert len(forks) == 2
    for response in forks:
        assert "Plan the launch" in json.dumps(response["output"])
    lanes = [event.get("stream_id") for event in events]
    assert lanes.index("critic") < len(lanes) - lanes[::-1].index("research")
    assert None in lanes
    assert "sunny" in json.dumps(others[-1]["output"])
    validate(judge.errors[0])
    assert judge.errors[0]["stream_id"] == "critic"
    assert judge.errors[0]["error"]["code"] == "previous_response_not_found"
