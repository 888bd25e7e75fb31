"""The words of the checks: what was asked, what can be wrong with the answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Rule(StrEnum):
    """The promise a violation breaks."""

    ORDER = "order"  # created, in_progress, items, one terminal
    NUMBER = "number"  # sequence_number from 0, contiguous
    LANE = "lane"  # every event on the lane of its response
    FIFO = "fifo"  # a lane's creates are answered in their order
    PARENT = "parent"  # previous_response_id is what was asked
    INDEX = "index"  # output_index contiguous, items where they were put
    TEXT = "text"  # deltas == done == final output
    LATE = "late"  # nothing after a terminal
    UNANSWERED = "unanswered"  # every create ends in a terminal or an error
    SHAPE = "shape"  # a frame that is no event


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken promise."""

    rule: Rule
    message: str


@dataclass(slots=True)
class Ask:
    """One `response.create` on its way: what was asked, and when (nanoseconds)."""

    marker: str
    parent: str | None = None
    turn: int = 1
    sent: int = 0
    last: int = 0  # the latest event
    spoke: bool = False  # a delta came
