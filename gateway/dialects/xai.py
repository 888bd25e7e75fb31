"""xAI's Grok models: reasoning is theirs alone, encrypted, and asked for by `include`."""

from __future__ import annotations

from typing import Any

from gateway.upstream.dialect import Dialect
from gateway.upstream.history.forms import Reasoning
from gateway.upstream.history.replay import OPEN_KINDS, Replay
from lanes.stream.profile import Profile

_SEALED = "reasoning.encrypted_content"


def shape(request: dict[str, Any]) -> dict[str, Any]:
    """The only thing it includes."""
    include = request.get("include")
    if not isinstance(include, list):
        return request
    return request | {"include": [name for name in include if name == _SEALED]}


DIALECT = Dialect(
    "xai",
    Profile(replays_reasoning=False),
    drops=frozenset({"background"}),
    keeps_nulls=False,
    replay=Replay(OPEN_KINDS, Reasoning.SEALED, parts=None),
    shape=shape,
    websocket_lanes=1,
    hosts=("api.x.ai", ".api.x.ai"),
)
