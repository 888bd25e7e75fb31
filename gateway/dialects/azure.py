"""Azure OpenAI: the reference under another key, with keepalive events and content filters."""

from __future__ import annotations

from gateway.upstream.dialect import Dialect
from lanes.profile import Profile

DIALECT = Dialect(
    "azure",
    Profile(ordered_indices=True, replays_reasoning=False),
    auth_header="api-key",
    auth_scheme="",
    hosts=(".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"),
)
