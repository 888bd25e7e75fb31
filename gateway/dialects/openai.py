"""The reference: OpenAI's own endpoint, which the look-alikes imitate."""

from __future__ import annotations

from gateway.upstream.dialect import NEWER_KEYS, Dialect
from gateway.upstream.history.replay_form import ReplayForm
from gateway.upstream.token_counters import OWN
from lanes.stream.profile import Profile

# The endpoint looks unencrypted reasoning up by its id, and store=false has never kept it (D8).
# Encrypted reasoning goes back whole, and never without the item that followed it.
DIALECT = Dialect(
    "openai",
    Profile(ordered_indices=True, replays_reasoning=False),
    knows=NEWER_KEYS,
    namespaces=True,
    conversations=True,
    compacts=True,
    replay=ReplayForm(),
    counter=OWN,
    websocket_lanes=16,
    hosts=("api.openai.com", ".api.openai.com"),
    marks=("multilane-rehearse",),
)
