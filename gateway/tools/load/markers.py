"""Markers in the answers' text, which show that a steer arrives once and nowhere else. Pure.

Not every backend repeats its input. Successors must repeat the marker of their steer only if all
complete answers of the run repeat the marker of their create, once each.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from gateway.tools.load.response_checks import BrokenRule, Rule
from gateway.tools.load.text_checks import message_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.tools.load.response_checks import ResponseCheck, SentCreate

# Of a fixed width, so that a marker which is cut short never reads as another one.
_MARKER = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{6}\b")
_REMEMBERED = 100_000
_KEPT = 1_000


def steer_marker(connection: str, number: int) -> str:
    """Return the marker of a connection's steer."""
    return f"{connection}-{number:06x}"


class MarkerPlace(NamedTuple):
    """The connection and lane of a steer or a response."""

    connection: int
    lane: str


class Markers:
    """The markers of a run, and which of them the answers repeat."""

    def __init__(self) -> None:
        self.shown = 0  # successors that repeat their steer
        self._sent: dict[str, MarkerPlace] = {}
        self._repeating = self._silent = 0  # complete answers to creates
        self._wrong: list[tuple[BrokenRule, MarkerPlace]] = []

    def add(self, marker: str, place: MarkerPlace) -> None:
        """Remember the marker of a steer that was sent."""
        self._sent[marker] = place
        if len(self._sent) > _REMEMBERED:
            del self._sent[next(iter(self._sent))]

    def check(self, response: ResponseCheck, place: MarkerPlace) -> Iterator[BrokenRule]:
        """Search a finished response; yield a fault for each steer that it must not repeat."""
        text, create = message_text(response.output), response.create
        for marker in sorted(set(_MARKER.findall(text)) - create.steers):
            if owner := self._sent.get(marker):
                where = f"connection {owner.connection}, {owner.lane}"
                yield BrokenRule(Rule.STEER, f"{response.id} repeats steer {marker} of {where}")
        if response.status != "completed":
            return
        if create.steer is None:
            self._answer(text.count(create.marker))
        else:
            self._successor(create, text.count(create.steer), place)

    def finish(self) -> list[tuple[BrokenRule, MarkerPlace]]:
        """Return the successors that do not repeat their steer, if this backend repeats."""
        return self._wrong if self._repeating and not self._silent else []

    def _answer(self, times: int) -> None:
        if times == 1:
            self._repeating += 1
        else:
            self._silent += 1

    def _successor(self, create: SentCreate, times: int, place: MarkerPlace) -> None:
        self.shown += times > 0
        if times != 1 and len(self._wrong) < _KEPT:
            message = f"the successor of {create.parent} repeats steer {create.steer} {times} times"
            self._wrong.append((BrokenRule(Rule.STEER, message), place))
