"""What leaves for clients, as plain numbers that the writers raise: a call would cost too much."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class BackPressure:
    """Adds up for how long clients that fell behind have held up their upstreams."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        #: How many clients are behind now.
        self.clients = 0
        self._clock = clock
        self._seconds = 0.0
        self._since = clock()

    @property
    def seconds(self) -> float:
        """Seconds so far, those of several clients at a time added up."""
        self._change(0)
        return self._seconds

    def begin(self) -> None:
        """Note that a client fell behind."""
        self._change(1)

    def end(self) -> None:
        """Note that it caught up, or is gone."""
        self._change(-1)

    def _change(self, by: int) -> None:
        now = self._clock()
        self._seconds += self.clients * (now - self._since)
        self._since = now
        self.clients += by


@dataclass(slots=True)
class Traffic:
    """What left by one kind of connection since the start.

    Attributes:
        events: Events.
        bytes: Bytes of events and responses, with what frames them.
        pressure: How clients held it up.
    """

    events: int = 0
    bytes: int = 0
    pressure: BackPressure = field(default_factory=BackPressure)
