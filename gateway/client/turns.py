"""Shares the time of the event loop among those who read what clients send (D33).

Whoever reads something looks at `over` first, which costs no call; where the time of this turn is
used up or others wait already, it waits behind them. So many clients that send as fast as they can
hold up nothing that is no reading: events, verdicts, new connections.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds of reading in one turn of the event loop, before others have theirs.
SHARE: Final = 0.002
#: Seconds that a frame takes at least, and for each byte at most, in the order of magnitude.
_FRAME, _BYTE = 30e-6, 50e-9


class Turns:
    """The turns of all connections of a process.

    Attributes:
        busy_until: When reading may begin without a wait, less `SHARE`: what was read pushes it
            twice as far as it took.
        waiting: Those who wait, with the seconds that each will take.
    """

    __slots__ = ("_loop", "_scheduled", "busy_until", "waiting")

    def __init__(self) -> None:
        self.busy_until = 0.0
        self.waiting: deque[tuple[float, Callable[[], None]]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scheduled = False

    def call(self, read: Callable[[], None], seconds: float = SHARE) -> None:
        """Have a function called in its turn, which takes so many seconds."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # the loop before ended
            self.waiting.clear()
            self._loop, self._scheduled = loop, False
        self.waiting.append((seconds, read))
        self._go_on()

    async def wait(self, size: int) -> None:
        """Wait for the turn of a frame of so many bytes."""
        turn = asyncio.Event()
        self.call(turn.set, _FRAME + size * _BYTE)
        await turn.wait()

    def _go_on(self) -> None:
        if self.waiting and not self._scheduled and self._loop is not None:
            self._scheduled = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._scheduled = False
        left = SHARE
        while self.waiting and left > 0:
            seconds, read = self.waiting.popleft()
            left -= seconds
            read()
        self._go_on()


#: The turns of this process, which has one event loop.
TURNS: Final = Turns()
