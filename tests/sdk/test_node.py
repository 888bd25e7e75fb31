"""The official Node SDK, over the socket and over HTTP, driven by the scripts in node/."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from openai.types.conversations import Conversation, ConversationItem
from openai.types.responses import Response
from pydantic import TypeAdapter

from tests.support.hang_guard import HANG
from tests.support.judge import StreamJudge, validate

Command = Callable[[str], list[str]]

pytestmark = pytest.mark.node


async def _told(command: list[str], url: str) -> list[dict[str, Any]]:
    """What a script wrote, line by line."""
    with anyio.fail_after(HANG):
        done = await anyio.run_process([*command, url], check=False)
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


async def test_lanes_forks_a_tool_and_an_error(gateway_url: str, node_sdk: Command) -> None:
    events = await _told(node_sdk("lanes.mjs"), gateway_url)
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


def _judged(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The response at the end of a stream, each event of which is judged."""
    judge = StreamJudge()
    for event in events:
        judge.receive(event)
    judge.finish()
    ended: dict[str, Any] = events[-1]["response"]
    return ended


def _says(response: dict[str, Any], text: str) -> bool:
    return text in json.dumps(response["output"])


async def test_all_that_there_is_over_http(gateway_url: str, node_sdk: Command) -> None:
    got = {line["step"]: line["got"] for line in await _told(node_sdk("http.mjs"), gateway_url)}
    for step in ("whole", "tool", "queued", "cancelled", "bound"):
        got[step].pop("output_text", None)  # the SDK's own
        TypeAdapter(Response).validate_python(got[step], strict=True)
    got["retrieved"].pop("output_text", None)
    assert "My name is Ana" in got["text"]
    assert got["retrieved"] == got["whole"]
    assert _says(_judged(got["stream"]), "My name is Ana")
    assert got["helper"]["text"]
    assert _says(got["tool"], "sunny")

    assert got["queued"]["status"] == "queued"
    ended = _judged(got["followed"])
    assert ended["status"] == "completed"
    assert got["rest"] == got["followed"][-2:]
    assert got["again"][-1]["response"]["id"] == ended["id"]
    assert [item["content"][0]["text"] for item in got["items"]] == ["hi"]
    assert got["over"]["status"] == 409
    assert got["cancelled"]["status"] == "cancelled"
    assert len(got["cancelled items"]) == 1
    assert got["deleted"]["status"] == 404

    TypeAdapter(Conversation).validate_python(got["conversation"], strict=True)
    assert got["updated"] == {**got["conversation"], "metadata": {"c": "d"}}
    for item in got["turns"]:
        TypeAdapter(ConversationItem).validate_python(item, strict=True)
    texts = [item["content"][0]["text"] for item in got["turns"]]
    assert texts[:3] == ["one", "two", "three"]
    assert [item["role"] for item in got["turns"]] == ["user", "user", "user", "assistant"]
    assert got["item"] == got["turns"][0]
    assert got["fewer"] == got["turns"][:0:-1]
    assert (got["gone"]["status"], got["gone"]["code"]) == (404, "conversation_not_found")

    refused = got["no parent"]
    assert (refused["status"], refused["code"]) == (400, "previous_response_not_found")
    assert (got["no input"]["status"], got["no input"]["param"]) == (400, "input")
    assert (got["no tokens"]["status"], got["no tokens"]["code"]) == (
        501,
        "input_tokens_not_supported",
    )
    assert "rehearse" in [model["id"] for model in got["models"]]
