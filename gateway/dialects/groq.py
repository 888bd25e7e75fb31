"""Groq: it keeps no state, so each request carries the whole history."""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from gateway.upstream.history.replay_form import OPEN_KINDS, ReasoningForm, ReplayForm
from lanes.stream.profile import Profile

DIALECT = Dialect(
    "groq",
    Profile(),
    keeps_nulls=False,
    replay=ReplayForm(OPEN_KINDS, ReasoningForm.OPEN, parts=None),
    hosts=("api.groq.com",),
    traces=("x-groq-region",),
)
