"""How late the event loop is: what a step that takes long costs everybody else."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds between two looks.
PERIOD: Final = 0.1


class LoopDelay:
    """Sets a timer again and again, and tells how late each was.

    Args:
        tell: Hears of the seconds.
        then: Called after that.
    """

    def __init__(self, tell: Callable[[float], None], then: Callable[[], None]) -> None:
        self._tell = tell
        self._then = then
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look from now on."""
        self._due = time.monotonic() + PERIOD
        self._timer = asyncio.get_running_loop().call_later(PERIOD, self._on_timer)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _on_timer(self) -> None:
        self._tell(max(0.0, time.monotonic() - self._due))
        self._then()
        self.start()
