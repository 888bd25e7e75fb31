"""What reads a backend's answer where it is not the Responses API's own stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lanes.ports import Event


class Converter(Protocol):
    """Turns one body's events into those of the Responses API, in order."""

    def feed(self, events: list[Event]) -> list[Event]:
        """Convert the events of one read."""

    def finish(self) -> list[Event]:
        """Return the events still owed at the end of the body."""
