"""vLLM (`vllm serve`).

It reads only the first text of a message, refuses `encrypted_content`, and continues the last
message unless its status is `completed`.
"""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from gateway.upstream.history.replay_form import (
    CLOSED_KINDS,
    CUSTOM_KINDS,
    ReasoningForm,
    ReplayForm,
)
from gateway.upstream.token_counters import VLLM
from lanes.stream.profile import Profile

#: The phase of a message tells what a harmony model's template makes of it.
_MESSAGE = frozenset({"type", "role", "content", "status", "phase"})

DIALECT = Dialect(
    "vllm",
    Profile(ordered_indices=True),
    keeps_nulls=False,
    replay=ReplayForm(
        {**CLOSED_KINDS, **CUSTOM_KINDS, "message": _MESSAGE},
        ReasoningForm.TEXT,
        needs_id=frozenset({"reasoning"}),
        status="completed",
        joins_text=True,
        closes_input=True,
    ),
    counter=VLLM,
    marks=("vllm",),
)
