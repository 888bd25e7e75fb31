"""Ids that say where their records are: a steer id holds the tag of its response (D14)."""

from __future__ import annotations

import re
import secrets
from typing import Final

_RESPONSE: Final = re.compile(r"resp_([0-9a-f]{16})[0-9a-f]{16}")
_STEER: Final = re.compile(r"steer_([0-9a-f]{16})[0-9a-f]{16}")
_RANDOM: Final = re.compile(r"[0-9a-f]{16}")


def response_tag(response_id: str) -> str | None:
    """Return the tag of a response, the first half of its random part; None for a foreign id."""
    match = _RESPONSE.fullmatch(response_id)
    return match[1] if match else None


def steer_tag(steer_id: str) -> str | None:
    """Return the tag of the response that a submission steers; None for a foreign id."""
    match = _STEER.fullmatch(steer_id)
    return match[1] if match else None


def steer_id(response_id: str, random: str | None = None) -> str:
    """Return the id of a submission: its response's tag and 16 random hex digits of its own.

    Raises ValueError for a foreign response id or anything but 16 hex digits.
    """
    tag = response_tag(response_id)
    random = secrets.token_hex(8) if random is None else random
    if tag is None or not _RANDOM.fullmatch(random):
        raise ValueError("needs a response id and 16 hex digits")
    return f"steer_{tag}{random}"
