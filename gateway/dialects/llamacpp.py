"""llama.cpp's own server (`llama-server`, or its Python wheel).

It requires a type on every item, reads only `output_text` of the assistant's parts and the first
text of a reasoning item, and its chat template fails on arguments that are not an object. It takes
an assistant message at the end as a prefill, which reasoning models refuse.
"""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from gateway.upstream.history.replay_form import CLOSED_KINDS, ReasoningForm, ReplayForm
from gateway.upstream.token_counters import LLAMACPP
from lanes.stream.profile import Profile

DIALECT = Dialect(
    "llamacpp",
    Profile(counts_limit=True),
    keeps_nulls=False,
    tools=frozenset({"function"}),
    replay=ReplayForm(
        {**CLOSED_KINDS, "reasoning": frozenset({"type", "summary", "content"})},
        ReasoningForm.TEXT,
        object_arguments=True,
        text_outputs=True,
        closes_input=True,
    ),
    counter=LLAMACPP,
    marks=("llamacpp", "llama.cpp"),
)
