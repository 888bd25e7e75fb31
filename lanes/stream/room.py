"""MACHINE: how much output a response may still have, and its connection (protocol.md 4)."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

#: Bytes of room that a response takes at a time of what its connection may have.
_SHARE = 64 * 1024


@dataclass(slots=True)
class OutputBounds:
    """The bounds of one connection's output, in bytes.

    Attributes:
        of_response: What one response may have.
        left: What all running responses may still take together.
    """

    of_response: int = sys.maxsize
    left: int = sys.maxsize


@dataclass(slots=True)
class Room:
    """The bytes of output that one response may still have.

    Whoever adds output lowers `left`; below 0, `extend` is to be asked. Text counts as it streams,
    a finished item as its JSON if that is more.

    Attributes:
        bounds: The connection's.
        left: What is left of the bytes it has taken.
        taken: The bytes it has taken; whoever ends the response gives them back to `bounds`.
        mark: What was left when the last finished item ended.
    """

    bounds: OutputBounds = field(default_factory=OutputBounds)
    left: int = 0
    taken: int = 0
    mark: int = 0

    def extend(self) -> bool:
        """Take more bytes; return False if there are not enough for the output so far."""
        bounds = self.bounds
        size = min(max(_SHARE, -self.left), bounds.of_response - self.taken, bounds.left)
        bounds.left -= size
        self.taken += size
        self.left += size
        self.mark += size
        return self.left >= 0
