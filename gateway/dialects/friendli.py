"""Friendli: its containers and its hosted endpoints.

It ignores every key that its schema does not name, so the gateway does not send those.
"""

from __future__ import annotations

from typing import Any

from gateway.upstream.dialect import Dialect
from gateway.upstream.history.replay_form import (
    CLOSED_KINDS,
    CUSTOM_KINDS,
    ReasoningForm,
    ReplayForm,
)
from lanes.stream.profile import Profile


def shape(request: dict[str, Any]) -> dict[str, Any]:
    """Add empty `parameters` to a function that has none: the backend's schema requires the key."""
    tools = request.get("tools")
    if not tools:
        return request
    return request | {"tools": [_tool(tool) for tool in tools]}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    if tool.get("type") != "function" or isinstance(tool.get("parameters"), dict):
        return tool
    return tool | {"parameters": {"type": "object", "properties": {}}}


DIALECT = Dialect(
    "friendli",
    Profile(ordered_indices=True),
    keys=frozenset(
        {"input", "instructions", "max_output_tokens", "model", "parallel_tool_calls"}
        | {"reasoning", "stream", "temperature", "text", "tool_choice", "tools", "top_p"}
    ),
    keeps_nulls=False,
    tools=frozenset({"function", "custom"}),
    replay=ReplayForm(
        {**CLOSED_KINDS, **CUSTOM_KINDS}, ReasoningForm.TEXT, needs_id=frozenset({"reasoning"})
    ),
    shape=shape,
    hosts=(".friendli.ai",),
    ids=r"resp_([0-9a-f]{32})( (msg|rs)_\1)+",  # a container makes all its ids of one number
)
