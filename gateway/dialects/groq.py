"""Groq: no state, so the whole history every time."""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from gateway.upstream.history.forms import Reasoning
from gateway.upstream.history.replay import OPEN_KINDS, Replay
from lanes.stream.profile import Profile

DIALECT = Dialect(
    "groq",
    Profile(),
    keeps_nulls=False,
    replay=Replay(OPEN_KINDS, Reasoning.OPEN, parts=None),
    hosts=("api.groq.com",),
)
