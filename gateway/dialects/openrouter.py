"""OpenRouter: no state; it refuses `store: true` and any `previous_response_id`.

The assistant's messages must have an id and a status there.
"""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from gateway.upstream.history.forms import Reasoning
from gateway.upstream.history.replay import OPEN_KINDS, Replay
from lanes.stream.profile import Profile

DIALECT = Dialect(
    "openrouter",
    Profile(),
    keeps_nulls=False,
    replay=Replay(
        OPEN_KINDS,
        Reasoning.OPEN,
        parts=None,
        names=frozenset({"message", "reasoning"}),
        status="completed",
    ),
    hosts=("openrouter.ai",),
)
