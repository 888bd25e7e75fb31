"""Ollama."""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from lanes.profile import Profile

DIALECT = Dialect("ollama", Profile(counts_limit=True), keeps_nulls=False, marks=("library",))
