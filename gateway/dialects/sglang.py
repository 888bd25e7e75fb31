"""SGLang."""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from lanes.profile import Profile

DIALECT = Dialect("sglang", Profile(), keeps_nulls=False, marks=("sglang",))
