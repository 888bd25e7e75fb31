"""Warnings about what the gateway drops because Chat Completions cannot express it."""

from __future__ import annotations

import logging
from typing import Final

from gateway.logs import ThrottledWarnings

NOTICES: Final = ThrottledWarnings(logging.getLogger("multilane.dialect"))


def left_out(what: str, name: object) -> None:
    """Log that a request was sent without something; `what` is one of a few kinds."""
    NOTICES.warning(what, f"Chat Completions has no {what} {name!r:.256}; left out")
