"""What answers repeat of what they were told, and so that a steer arrives once and nowhere else.

Pure. Not every backend repeats anything. Only if all whole answers of a run repeat the marker of
their create, once each, successors must repeat their steer's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from gateway.tools.load.response_checks import BrokenRule, Rule
from gateway.tools.load.text_checks import spoken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.tools.load.response_checks import ResponseCheck, SentCreate

# Of a fixed width: a text that is cut within one never reads as another.
_MARKER = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{6}\b")
_REMEMBERED = 100_000
_KEPT = 1_000


def steer_marker(connection: str, number: int) -> str:
    """The marker of a connection's steer."""
    return f"{connection}-{number:06x}"


class MarkerPlace(NamedTuple):
    """Where something was sent or came."""

    connection: int
    lane: str


class Markers:
    """The markers of a run, and which of them came back."""

    def __init__(self) -> None:
        self.shown = 0  # successors that repeat their steer
        self._sent: dict[str, MarkerPlace] = {}
        self._told = self._untold = 0
        self._wrong: list[tuple[BrokenRule, MarkerPlace]] = []

    def sent(self, marker: str, place: MarkerPlace) -> None:
        """A steer was sent."""
        self._sent[marker] = place
        if len(self._sent) > _REMEMBERED:
            del self._sent[next(iter(self._sent))]

    def hear(self, response: ResponseCheck, place: MarkerPlace) -> Iterator[BrokenRule]:
        """Look through a finished response; says which steers it should know nothing of."""
        text, ask = spoken(response.output), response.ask
        for marker in sorted(set(_MARKER.findall(text)) - ask.steers):
            if owner := self._sent.get(marker):
                where = f"connection {owner.connection}, {owner.lane}"
                yield BrokenRule(Rule.STEER, f"{response.id} repeats steer {marker} of {where}")
        if response.status != "completed":
            return
        if ask.steer is None:
            self._answer(text.count(ask.marker))
        else:
            self._successor(ask, text.count(ask.steer), place)

    def verdict(self) -> list[tuple[BrokenRule, MarkerPlace]]:
        """The run is over: the successors that do not repeat their steer, if they should."""
        return self._wrong if self._told and not self._untold else []

    def _answer(self, times: int) -> None:
        if times == 1:
            self._told += 1
        else:
            self._untold += 1

    def _successor(self, ask: SentCreate, times: int, place: MarkerPlace) -> None:
        self.shown += times > 0
        if times != 1 and len(self._wrong) < _KEPT:
            message = f"the successor of {ask.parent} repeats steer {ask.steer} {times} times"
            self._wrong.append((BrokenRule(Rule.STEER, message), place))
