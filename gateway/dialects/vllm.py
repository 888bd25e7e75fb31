"""vLLM (`vllm serve`)."""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from lanes.profile import Profile

DIALECT = Dialect("vllm", Profile(), keeps_nulls=False, marks=("vllm",))
