"""Ollama.

It refuses input items of other types than these, and has its reasoning in the clear in
`encrypted_content`: that is no business of a client's, but it reads nothing else of it.
"""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from gateway.upstream.history.forms import Reasoning
from gateway.upstream.history.replay import CLOSED_KINDS, Replay
from lanes.stream.profile import Profile

DIALECT = Dialect(
    "ollama",
    Profile(counts_limit=True, seals_reasoning=False),
    drops=frozenset({"background", "include", "metadata", "tool_choice", "truncation"}),
    keeps_nulls=False,
    tools=frozenset({"function"}),
    replay=Replay(
        {**CLOSED_KINDS, "reasoning": frozenset({"type", "id", "summary", "encrypted_content"})},
        Reasoning.PLAIN,
        joins=True,
        objects=True,
        text_outputs=True,
        closes=True,
    ),
    # Models that came from elsewhere are owned by others; its ids are numbers below a million.
    hosts=("ollama.com",),
    marks=("library",),
    ids=r"resp_\d{1,6}( (msg|rs)_\d{1,6})*",
)
