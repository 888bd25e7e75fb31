"""Who watches the responses of a worker; nothing is told of single events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lanes.attempt import Attempt
    from lanes.errors import Fault
    from lanes.frames import Create


class ResponseObserver(Protocol):
    """Hears of each create once when it is over, however that comes."""

    def end(self, attempt: Attempt) -> None:
        """Note that a response is over."""

    def refuse(self, create: Create, fault: Fault) -> None:
        """Note that a create did not get as far as a response."""


class Observers:
    """Tells several observers, in their order."""

    def __init__(self, *observers: ResponseObserver) -> None:
        self._observers = observers

    def end(self, attempt: Attempt) -> None:
        """Tell that a response is over."""
        for observer in self._observers:
            observer.end(attempt)

    def refuse(self, create: Create, fault: Fault) -> None:
        """Tell that a create did not get as far as a response."""
        for observer in self._observers:
            observer.refuse(create, fault)


class NobodyWatches:
    """The observer of a worker that has none."""

    def end(self, attempt: Attempt) -> None:
        """Note nothing."""

    def refuse(self, create: Create, fault: Fault) -> None:
        """Note nothing."""
