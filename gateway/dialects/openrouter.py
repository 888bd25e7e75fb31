"""OpenRouter: it keeps no state, and refuses `store: true` and any `previous_response_id`.

It requires an id on the assistant's messages, and takes none with a status.
"""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from gateway.upstream.history.replay_form import OPEN_KINDS, ReasoningForm, ReplayForm
from lanes.stream.profile import Profile

DIALECT = Dialect(
    "openrouter",
    Profile(),
    keeps_nulls=False,
    replay=ReplayForm(
        OPEN_KINDS,
        ReasoningForm.OPEN,
        parts=None,
        needs_id=frozenset({"message", "reasoning"}),
    ),
    hosts=("openrouter.ai",),
)
