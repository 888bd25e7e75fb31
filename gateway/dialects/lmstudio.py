"""LM Studio."""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from lanes.profile import Profile

DIALECT = Dialect("lmstudio", Profile(), keeps_nulls=False, marks=("organization_owner",))
