"""Ids that tell where their records are: a steer id carries the tag of the response it steers."""

from __future__ import annotations

import re
import secrets
from typing import Final

_RESPONSE: Final = re.compile(r"resp_([0-9a-f]{16})[0-9a-f]{16}")
_STEER: Final = re.compile(r"steer_([0-9a-f]{16})[0-9a-f]{16}")
_RANDOM: Final = re.compile(r"[0-9a-f]{16}")


def response_tag(response_id: str) -> str | None:
    """The tag of a response, the first half of its random part; None if it is no id of ours."""
    found = _RESPONSE.fullmatch(response_id)
    return found[1] if found else None


def steer_tag(steer_id: str) -> str | None:
    """The tag of the response that a submission steers; None if it is no id of ours."""
    found = _STEER.fullmatch(steer_id)
    return found[1] if found else None


def steer_id(response_id: str, random: str | None = None) -> str:
    """The id of a submission: its response's tag and 16 random hex digits of its own.

    Raises ValueError if either is not ours.
    """
    tag = response_tag(response_id)
    random = secrets.token_hex(8) if random is None else random
    if tag is None or not _RANDOM.fullmatch(random):
        raise ValueError("needs a response id and 16 hex digits")
    return f"steer_{tag}{random}"
