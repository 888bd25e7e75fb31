"""The reference: what OpenAI's own endpoint sends, and what its look-alikes aim at."""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from gateway.upstream.history.replay import Replay
from lanes.stream.profile import Profile

# Reasoning in the clear is looked up by its id there, and store=false has never kept it. Sealed
# reasoning goes back whole, and never without what followed it.
DIALECT = Dialect(
    "openai",
    Profile(ordered_indices=True, replays_reasoning=False),
    conversations=True,
    replay=Replay(),
    websocket_lanes=16,
    hosts=("api.openai.com", ".api.openai.com"),
    marks=("multilane-rehearse",),
)
