"""Maritaca AI's Sabiá models.

What its page does not name it refuses as an unsupported parameter, so that is not sent. Encrypted
reasoning comes and goes without being asked for; S5-nano has it in the clear and takes it so.
"""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from gateway.upstream.history.forms import Reasoning
from gateway.upstream.history.replay import CLOSED_KINDS, Replay
from lanes.stream.profile import Profile

DIALECT = Dialect(
    "maritaca",
    Profile(ordered_indices=True),
    keys=frozenset(
        {"input", "instructions", "max_output_tokens", "metadata", "model", "parallel_tool_calls"}
        | {"reasoning", "store", "stream", "temperature", "text", "tool_choice", "tools", "top_p"}
    ),
    keeps_nulls=False,
    replay=Replay({**CLOSED_KINDS, "reasoning": None}, Reasoning.WHOLE),
    hosts=("chat.maritaca.ai",),
)
