"""Maritaca AI's Sabiá models.

It refuses every parameter that its documentation does not name, so the gateway does not send those.
It returns and accepts encrypted reasoning without being asked; S5-nano uses plain reasoning.
"""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from gateway.upstream.history.replay_form import CLOSED_KINDS, ReasoningForm, ReplayForm
from lanes.stream.profile import Profile

DIALECT = Dialect(
    "maritaca",
    Profile(ordered_indices=True),
    keys=frozenset(
        {"input", "instructions", "max_output_tokens", "metadata", "model", "parallel_tool_calls"}
        | {"reasoning", "store", "stream", "temperature", "text", "tool_choice", "tools", "top_p"}
    ),
    keeps_nulls=False,
    replay=ReplayForm({**CLOSED_KINDS, "reasoning": None}, ReasoningForm.WHOLE),
    hosts=("chat.maritaca.ai",),
)
