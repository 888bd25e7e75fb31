"""Any backend that only has Chat Completions: requests and streams are translated (D22)."""

from __future__ import annotations

from gateway.upstream.chat_service import chat_service

DIALECT = chat_service("chat")
