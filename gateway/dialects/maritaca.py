"""Maritaca AI's Sabiá models."""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from lanes.profile import Profile

DIALECT = Dialect(
    "maritaca",
    Profile(replays_reasoning=False),
    keeps_nulls=False,
    hosts=("chat.maritaca.ai",),
)
