"""xAI's Grok models: reasoning is encrypted, and `include` asks for it."""

from __future__ import annotations

from typing import Any

from gateway.upstream.dialect import Dialect
from gateway.upstream.history.replay_form import OPEN_KINDS, ReasoningForm, ReplayForm
from lanes.stream.profile import Profile

_SEALED = "reasoning.encrypted_content"


def shape(request: dict[str, Any]) -> dict[str, Any]:
    """Keep the only `include` value that it supports."""
    include = request.get("include")
    if not isinstance(include, list):
        return request
    return request | {"include": [name for name in include if name == _SEALED]}


DIALECT = Dialect(
    "xai",
    Profile(replays_reasoning=False),
    drops=frozenset({"background"}),
    keeps_nulls=False,
    replay=ReplayForm(OPEN_KINDS, ReasoningForm.SEALED, parts=None),
    shape=shape,
    websocket_lanes=1,
    hosts=("api.x.ai", ".api.x.ai"),
)
