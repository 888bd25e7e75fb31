"""llama.cpp's own server (`llama-server`, or its Python wheel).

It wants every item typed, reads `output_text` alone of the assistant's parts, the first text of a
reasoning item, and fails in its chat template on arguments that are no object. A last message of
the assistant's is a prefill to it, which models that think refuse.
"""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from gateway.upstream.history.forms import Reasoning
from gateway.upstream.history.replay import CLOSED_KINDS, Replay
from lanes.stream.profile import Profile

DIALECT = Dialect(
    "llamacpp",
    Profile(counts_limit=True),
    keeps_nulls=False,
    tools=frozenset({"function"}),
    replay=Replay(
        {**CLOSED_KINDS, "reasoning": frozenset({"type", "summary", "content"})},
        Reasoning.TEXT,
        objects=True,
        text_outputs=True,
        closes=True,
    ),
    marks=("llamacpp", "llama.cpp"),
)
