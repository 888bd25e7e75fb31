"""An unknown backend that has `/responses`: the plainest form of the reference.

SDKs send this form, so every look-alike was tried with it: typed items, the assistant's messages
with id, status and annotations, and nothing that only the reference itself understands.
"""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from gateway.upstream.history.replay_form import CLOSED_KINDS, CUSTOM_KINDS, OPEN_KINDS, ReplayForm
from lanes.stream.profile import Profile

# Unencrypted reasoning goes back only to backends that are known to accept it. Whether
# `output_index` can be trusted is unknown. A cut message is `completed`, too: some backends would
# continue a message that calls itself incomplete.
DIALECT = Dialect(
    "generic",
    Profile(replays_reasoning=False),
    keeps_nulls=False,
    replay=ReplayForm(
        {
            **OPEN_KINDS,
            **CLOSED_KINDS,
            **CUSTOM_KINDS,
            "message": frozenset({"type", "id", "role", "status", "content"}),
        },
        parts=frozenset({"annotations"}),
        needs_id=frozenset({"message"}),
        status="completed",
    ),
)
