"""B45: bad input comes back as it was, with a code, and the response goes on untouched."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.gateway_stand import user
from tests.support.steered import steered, talking, untouched

IMAGE = {"type": "input_image", "image_url": "data:,"}
BAD_INPUTS: dict[str, Any] = {
    "nothing": None,
    "a number": 42,
    "an object": {"role": "user", "content": "x"},
    "false": False,
    "empty": "",
    "empty array": [],
    "strings": ["x"],
    "nested": [[user("x")]],
    "a number in it": [user("x"), 1],
    "assistant": [{"role": "assistant", "content": "x"}],
    "system": [{"role": "system", "content": "x"}],
    "developer": [{"type": "message", "role": "developer", "content": "x"}],
    "no role": [{"type": "message", "content": "x"}],
    "tool output": [{"type": "function_call_output", "call_id": "c1", "output": "x"}],
    "reference": [{"type": "item_reference", "id": "msg_1"}],
    "another type": [{"type": "reasoning", "role": "user", "content": "x"}],
    "type null": [{"type": None, "role": "user", "content": "x"}],
    "no content": [{"role": "user"}],
    "empty content": [{"role": "user", "content": ""}],
    "no parts": [{"role": "user", "content": []}],
    "content null": [{"role": "user", "content": None}],
    "content number": [{"role": "user", "content": 1}],
    "unknown part": [{"role": "user", "content": [{"type": "output_text", "text": "x"}]}],
    "audio": [{"role": "user", "content": [{"type": "input_audio", "data": ""}]}],
    "part string": [{"role": "user", "content": ["x"]}],
    "part null": [{"role": "user", "content": [None]}],
    "part untyped": [{"role": "user", "content": [{"text": "x"}]}],
    "part type list": [{"role": "user", "content": [{"type": ["input_text"], "text": "x"}]}],
    "text number": [{"role": "user", "content": [{"type": "input_text", "text": 1}]}],
    "text missing": [{"role": "user", "content": [{"type": "input_text"}]}],
    "message id": [{"role": "user", "content": "x", "id": "msg_1"}],
    "message status": [{"role": "user", "content": "x", "status": "completed"}],
    "one of many": [user("x"), {"role": "user", "content": [IMAGE], "name": "x"}],
}
BAD_KEYS: dict[str, dict[str, Any]] = {
    "stream_id": {"stream_id": "a"},
    "stream_id null": {"stream_id": None},
    "model": {"model": "m"},
    "event_id": {"event_id": "e1"},
    "metadata": {"metadata": {}},
    "x" * 300: {"x" * 300: 1, "y": 2},
}


async def test_b45_bad_input_comes_back_and_harms_nothing() -> None:
    async with steered() as on:
        parent = await talking(on, "a")
        for name, value in BAD_INPUTS.items():
            error = await parent.refused(value)
            assert error["code"] == "invalid_input", name
            assert error["message"], name
        for extra in BAD_KEYS.values():
            error = await parent.refused("x", **extra)
            assert error["code"] == "invalid_input"
            assert len(error["message"]) < 300
        failures = [e for e in on.client.transcript if e["type"] == "response.steer.failed"]
        assert len(failures) == len(BAD_INPUTS) + len(BAD_KEYS)
        assert all("id" not in e["steer"] and e["stream_id"] == "a" for e in failures)
        await untouched(parent)


async def test_an_input_that_is_missing_is_null() -> None:
    async with steered() as on:
        parent = await talking(on, "a")
        await on.client.send({"type": "response.steer", "previous_response_id": parent.id})
        event = (await on.client.until("response.steer.failed", lane="a"))[-1]
        assert event["error"]["code"] == "invalid_input"
        assert event["steer"] == {"previous_response_id": parent.id, "input": None}
        await untouched(parent)


@pytest.mark.parametrize("target", [None, "", 42, ["x"], {"id": "x"}, True])
async def test_no_usable_target(target: object) -> None:
    async with steered() as on:
        await on.client.steer(target, "x")
        event = await on.client.event()
        assert event["error"]["code"] == "invalid_input"
        assert event["steer"] == {"previous_response_id": "", "input": "x"}
        assert (event["sequence_number"], "stream_id" in event) == (0, False)
