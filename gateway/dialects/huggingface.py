"""Hugging Face's responses.js and the router that runs it."""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from lanes.profile import Profile

DIALECT = Dialect(
    "huggingface",
    Profile(),
    keeps_nulls=False,
    hosts=("router.huggingface.co", ".endpoints.huggingface.cloud"),
)
