"""Groq."""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from lanes.profile import Profile

DIALECT = Dialect("groq", Profile(), keeps_nulls=False, hosts=("api.groq.com",))
