"""xAI's Grok models."""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from lanes.profile import Profile

DIALECT = Dialect(
    "xai", Profile(replays_reasoning=False), keeps_nulls=False, hosts=("api.x.ai", ".api.x.ai")
)
