"""OpenRouter."""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from lanes.profile import Profile

DIALECT = Dialect("openrouter", Profile(), keeps_nulls=False, hosts=("openrouter.ai",))
