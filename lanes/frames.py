"""`response.create` as the gateway sees it: an envelope and the body that goes upstream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Create:
    """One checked `response.create` frame (protocol.md 2).

    `body` holds what the client sent, key by key and value for value, without the envelope
    (`type`, `stream_id`, `generate`, `event_id`) and without `stream`. `size` is the length of the
    frame in bytes. One that `follows` is no client's: the gateway made it to carry steers.
    """

    stream_id: str | None
    body: dict[str, Any]
    generate: bool = True
    size: int = 0
    follows: bool = False

    @property
    def parent_id(self) -> str | None:
        """`previous_response_id`, the response this one continues or forks from."""
        parent: str | None = self.body.get("previous_response_id")
        return parent
