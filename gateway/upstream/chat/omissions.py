"""What Chat Completions cannot say is left out, and the log tells so, sparingly."""

from __future__ import annotations

import logging
from typing import Final

from gateway.logs import ThrottledWarnings

NOTICES: Final = ThrottledWarnings(logging.getLogger("multilane.dialect"))


def left_out(what: str, name: object) -> None:
    """Tell of something that had to be left out of a request. `what` is one of a few kinds."""
    NOTICES.warning(what, f"Chat Completions has no {what} {name!r:.64}; left out")
