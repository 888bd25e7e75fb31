"""What a backend tells too early: events of later items, held while the one before is open.

A call always finishes first. Text does not: many backends never say that it is over before the
next item begins. So an item that is announced behind open text waits only to see what comes next:
its own text (then the one before is over), or more of the text before it (then both are being
written at once, and the later one waits for the end of the first).
"""

from __future__ import annotations

from typing import Any

from lanes.stream.parts import CALL_KINDS

#: Events that tell no more than that something begins.
_ANNOUNCEMENTS = frozenset(
    f"response.{what}.added" for what in ("output_item", "content_part", "reasoning_summary_part")
)
#: So many events of what comes later, and none of the open item, say that this one is over.
_PATIENCE = 8


class HeldEvents:
    """The events that are held, in the order in which they came."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.events: list[dict[str, Any]] = []
        #: Whether an item was announced behind text that has no end yet.
        self.announced = False
        #: How many of the events tell more than that something begins.
        self.told = 0
        #: The items, by index, that were closed too early: more of their text is among the events.
        self.resuming: set[int] = set()
        self._went_on = False
        self._interleaved = False

    def __bool__(self) -> bool:
        return bool(self.events)

    def announce(self, event: dict[str, Any]) -> None:
        """Hold the announcement of an item behind text."""
        self.announced = True
        self.events.append(event)

    def hold(self, event: dict[str, Any]) -> None:
        self.told += event["type"] not in _ANNOUNCEMENTS
        self.events.append(event)

    def went_on(self) -> None:
        """The open item got more text, whatever was announced behind it."""
        if self.announced:
            self._went_on = True
            self._interleaved = self._interleaved or self.told > 0

    @property
    def torn(self) -> bool:
        """Whether something would be torn apart if nothing more came: it was not only announced."""
        called = (event.get("item", {}).get("type") in CALL_KINDS for event in self.events)
        return self.told > 0 or any(called)

    def in_vain(self, *, blank: bool) -> bool:
        """Whether the open text is over, though nobody said so. `blank`: it had none so far."""
        if not self.announced or not self.told or self._interleaved:
            return False
        return self.told > _PATIENCE if blank or self._went_on else True

    def take(self) -> list[dict[str, Any]]:
        """All events; nothing waits any more."""
        events = self.events
        self._clear()
        return events
