"""Friendli, its containers and its hosted endpoints."""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from lanes.profile import Profile

DIALECT = Dialect(
    "friendli",
    Profile(),
    keys=frozenset(
        {"input", "instructions", "max_output_tokens", "model", "parallel_tool_calls"}
        | {"reasoning", "stream", "temperature", "text", "tool_choice", "tools", "top_p"}
    ),
    keeps_nulls=False,
    hosts=(".friendli.ai",),
)
