"""What the script decides on: the parts of an answer and how it ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Ending(StrEnum):
    """How a response ends."""

    WHOLE = "whole"
    FAIL = "fail midway"
    CUT = "cut midway"
    STALL = "stall"


@dataclass(frozen=True, slots=True)
class Reason:
    """Thinking: parts of pieces, shown as a summary if `shown`."""

    parts: tuple[tuple[str, ...], ...]
    shown: bool


@dataclass(frozen=True, slots=True)
class Say:
    """A message, or a refusal."""

    pieces: tuple[str, ...]
    refusal: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a declared tool, `kind` function or custom."""

    kind: str
    name: str
    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer to one request: parts of pieces, one piece a token."""

    parts: tuple[Reason | Say | Call, ...]
    ending: Ending
    words_in: int
