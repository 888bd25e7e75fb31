"""vLLM (`vllm serve`).

It reads the first text of a message only, refuses `encrypted_content`, and goes on within the last
message where that is called anything but completed.
"""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from gateway.upstream.history.forms import Reasoning
from gateway.upstream.history.replay import CLOSED_KINDS, CUSTOM_KINDS, Replay
from lanes.stream.profile import Profile

DIALECT = Dialect(
    "vllm",
    Profile(ordered_indices=True),
    keeps_nulls=False,
    replay=Replay(
        {**CLOSED_KINDS, **CUSTOM_KINDS},
        Reasoning.TEXT,
        names=frozenset({"reasoning"}),
        status="completed",
        joins=True,
        closes=True,
    ),
    marks=("vllm",),
)
