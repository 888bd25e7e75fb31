"""Azure OpenAI: the reference with another key header, keepalive events and content filters."""

from __future__ import annotations

from gateway.dialects import openai
from gateway.upstream.dialect import Dialect

DIALECT = Dialect(
    "azure",
    openai.DIALECT.profile,
    auth_header="api-key",
    auth_scheme="",
    namespaces=True,
    conversations=True,
    compacts=True,
    replay=openai.DIALECT.replay,
    websocket_lanes=1,
    hosts=(".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"),
)
