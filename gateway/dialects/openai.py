"""The reference: what OpenAI's own endpoint sends, and what its look-alikes aim at."""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from lanes.profile import Profile

# Reasoning in the clear is looked up by its id there, and store=false has never kept it.
DIALECT = Dialect(
    "openai",
    Profile(ordered_indices=True, replays_reasoning=False),
    hosts=("api.openai.com",),
)
