"""A backend that nobody knows but that has `/responses`: the reference's plainest form.

It is what SDKs send, so it is what every look-alike was tried with: typed items, the assistant's
messages with id, status and annotations, and nothing that only the reference itself could know.
"""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from gateway.upstream.history.replay import CLOSED_KINDS, CUSTOM_KINDS, OPEN_KINDS, Replay
from lanes.stream.profile import Profile

# Reasoning in the clear goes back to those only that are known to take it, and whether a place in
# the output can be trusted is not known either. `completed`, though it was cut: some would go on
# within a message that calls itself incomplete.
DIALECT = Dialect(
    "generic",
    Profile(replays_reasoning=False),
    keeps_nulls=False,
    replay=Replay(
        {
            **OPEN_KINDS,
            **CLOSED_KINDS,
            **CUSTOM_KINDS,
            "message": frozenset({"type", "id", "role", "status", "content"}),
        },
        parts=frozenset({"annotations"}),
        names=frozenset({"message"}),
        status="completed",
    ),
)
