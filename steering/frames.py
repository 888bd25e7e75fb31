"""`response.steer` as a frame, and the event that gives its input back (protocol.md 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Steer:
    """A `response.steer` as it came: nothing of it is trusted before it is checked."""

    frame: dict[str, Any]


def failed(steer: Steer, code: str, message: str) -> dict[str, Any]:
    """`response.steer.failed` before an id was given, without number and lane: input returned."""
    target = steer.frame.get("previous_response_id")
    return {
        "type": "response.steer.failed",
        "error": {"type": "invalid_request_error", "code": code, "message": message},
        "steer": {
            "previous_response_id": target if isinstance(target, str) else "",
            "input": steer.frame.get("input") or "",
        },
    }
