"""The limits of a tenant: their names, and how a person writes them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

#: What stands for no limit, where there is one by default.
UNLIMITED: Final = "unlimited"
#: The largest limit.
MOST: Final = 1_000_000_000

#: Some limits by name; None stands for `unlimited`.
GivenLimits = tuple[tuple[str, int | None], ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a tenant may do; None is as much as it likes, 0 is nothing.

    Attributes:
        connections: WebSockets at a time.
        running: Responses at a time.
        creates: Creates a minute.
        tokens: Tokens a minute.
    """

    connections: int | None = None
    running: int | None = None
    creates: int | None = None
    tokens: int | None = None

    @property
    def of_creates(self) -> bool:
        """Whether any of them bounds creates."""
        return (self.running, self.creates, self.tokens) != (None, None, None)

    def with_given(self, given: Iterable[tuple[str, int | None]]) -> Limits:
        """Return these limits, but for those that are given."""
        return replace(self, **dict(given))


#: The names of all limits.
NAMES: Final = tuple(field.name for field in fields(Limits))


def read_limit(name: str, text: str) -> int | None:
    """Return a limit as a person writes it; None for `unlimited`. Raises ValueError."""
    if text == UNLIMITED:
        return None
    if text.isascii() and text.isdigit() and len(text) <= len(str(MOST)) and int(text) <= MOST:
        return int(text)
    raise ValueError(f"{name}= must be a number from 0 to {MOST}, or {UNLIMITED}")


def shown_limit(limit: int | None) -> str:
    """Return a limit as a person writes it."""
    return UNLIMITED if limit is None else str(limit)
