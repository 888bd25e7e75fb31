"""Groq: no state, so the whole history every time."""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from gateway.upstream.forms import Reasoning
from gateway.upstream.replay import OPEN_KINDS, Replay
from lanes.profile import Profile

DIALECT = Dialect(
    "groq",
    Profile(),
    keeps_nulls=False,
    replay=Replay(OPEN_KINDS, Reasoning.OPEN, parts=None),
    hosts=("api.groq.com",),
)
