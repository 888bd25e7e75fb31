"""What reads a backend's answer where it is not the Responses API's own stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lanes.ports import Event


class Converter(Protocol):
    """Turns one body's events into those of the Responses API, in order."""

    @property
    def ending(self) -> bool:
        """Whether the answer is over, as far as it says, so that little may be waited for."""
        ...

    def feed(self, events: list[Event]) -> list[Event]:
        """Convert the events of one read."""

    def finish(self) -> list[Event]:
        """Return the events still owed at the end of the body."""
