"""Ollama.

It refuses input items of any other type. Its `encrypted_content` is plain text: clients never see
it, but it is the only part of reasoning that Ollama reads back.
"""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from gateway.upstream.history.replay_form import CLOSED_KINDS, ReasoningForm, ReplayForm
from lanes.stream.profile import Profile

DIALECT = Dialect(
    "ollama",
    Profile(counts_limit=True, seals_reasoning=False),
    drops=frozenset({"background", "include", "metadata", "tool_choice", "truncation"}),
    keeps_nulls=False,
    tools=frozenset({"function"}),
    replay=ReplayForm(
        {**CLOSED_KINDS, "reasoning": frozenset({"type", "id", "summary", "encrypted_content"})},
        ReasoningForm.PLAIN,
        joins_text=True,
        object_arguments=True,
        text_outputs=True,
        closes_input=True,
    ),
    # Imported models have other owners than `library`; ids are numbers below a million.
    hosts=("ollama.com",),
    marks=("library",),
    ids=r"resp_\d{1,6}( (msg|rs)_\d{1,6})*",
)
