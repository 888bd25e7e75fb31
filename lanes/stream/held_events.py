"""MACHINE: the events of later items, held while the item before them is open (D5, D6, D26).

`item_states` has the states and the rules in words.
"""

from __future__ import annotations

from typing import Any

from lanes.errors import IllegalTransition
from lanes.stream.item_states import BEHIND_TEXT, HOLD_TRANSITIONS, HoldState, HoldStep
from lanes.stream.parts import CALL_KINDS

#: Events that only open something.
_OPENINGS = frozenset(
    f"response.{what}.added" for what in ("output_item", "content_part", "reasoning_summary_part")
)
#: More held events with content than this, and none of the open text, mean that it is over.
_PATIENCE = 8
#: So do more openings than this: all that is held is read again each time that an item ends.
_MANY = 64


class HeldEvents:
    """The events that are held, in the order in which they came."""

    def __init__(self) -> None:
        self.state = HoldState.EMPTY
        #: Whether the open item is over, so that the events must be read again.
        self.freed = False
        self._events: list[dict[str, Any]] = []
        self._contents = 0

    def announce(self, event: dict[str, Any]) -> None:
        """Hold the `output_item.added` of an item behind open text."""
        self._step(HoldStep.ANNOUNCE)
        self._events.append(event)

    def hold(self, event: dict[str, Any]) -> None:
        """Hold an event of a later item."""
        if event["type"] in _OPENINGS:
            self._step(HoldStep.OPENING)
        else:
            self._step(HoldStep.CONTENT)
            self._contents += 1
        self._events.append(event)

    def continue_open(self) -> None:
        """Note that the open item has more text."""
        if self._events:
            self._step(HoldStep.CONTINUE)

    def free(self) -> None:
        """Note that the open item is over."""
        self._step(HoldStep.FREE)

    def replay(self) -> list[dict[str, Any]]:
        """Return the events to be read again; nothing is held any more."""
        self._step(HoldStep.REPLAY)
        events, self._events, self._contents = self._events, [], 0
        return events

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return bool(self._events)

    @property
    def behind_text(self) -> bool:
        """Whether a later item is announced behind open text."""
        return self.state in BEHIND_TEXT

    @property
    def unsafe(self) -> bool:
        """Whether a cut would tear something apart: a held call, or content that is held."""
        calls = (event.get("item", {}).get("type") in CALL_KINDS for event in self._events)
        return self._contents > 0 or any(calls)

    def outlasted(self, *, blank: bool) -> bool:
        """Return whether the open text is over, though no event says so.

        `blank` says whether none of its text was sent.
        """
        if self.state is HoldState.STARTED and not blank:
            return True
        if self.behind_text and len(self._events) - self._contents > _MANY:
            return True
        patient = self.state in (HoldState.STARTED, HoldState.PAUSED)
        return patient and self._contents > _PATIENCE

    def _step(self, step: HoldStep) -> None:
        try:
            self.state = HOLD_TRANSITIONS[self.state, step]
        except KeyError:
            raise IllegalTransition(f"held events {self.state}: {step}") from None
        self.freed = self.state is HoldState.FREED
