"""Tools in namespaces are called by both of their names."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.tools.rehearse.calls import planned_calls
from gateway.tools.rehearse.conversation import read_conversation

TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
SPACE = {"type": "namespace", "name": "city", "tools": [TOOL, {"type": "custom", "name": "sh"}]}


@pytest.mark.parametrize(
    ("said", "tools", "called"),
    [
        ("How is the weather?", [SPACE], [("city", "get_weather")]),
        ("call sh with ls", [SPACE], [("city", "sh")]),
        ("How is the weather?", [TOOL, SPACE], [(None, "get_weather")]),
        ("Hello", [SPACE], []),
    ],
)
def test_calls(said: str, tools: list[Any], called: list[Any]) -> None:
    request = {"input": said, "tools": tools}
    planned = planned_calls(request, read_conversation(request), "it")
    assert [(call.namespace, call.name) for call in planned] == called
