"""A clock that the test moves: the timers of one client's socket run when it says so."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.client.socket import ClientSocket


class HandTimer:
    """What `call_later` of the clock returns."""

    def __init__(self, due: float, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.due = due
        self._callback, self._args = callback, args
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True

    def run(self) -> None:
        self._callback(*self._args)


class HandClock:
    """A loop to its owner: `time` and `call_later` are the clock's, all else is the loop's."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._now = 0.0
        self._timers: list[HandTimer] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def time(self) -> float:
        """The clock's seconds."""
        return self._now

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> HandTimer:
        """As a loop's."""
        timer = HandTimer(self._now + delay, callback, args)
        self._timers.append(timer)
        return timer

    def elapse(self, seconds: float) -> None:
        """Let so many seconds pass: whatever is due by then runs, in its order."""
        end = self._now + seconds
        while due := [timer for timer in self._waiting() if timer.due <= end]:
            first = min(due, key=lambda timer: timer.due)
            self._timers.remove(first)
            self._now = first.due
            first.run()
        self._now = end

    def _waiting(self) -> list[HandTimer]:
        self._timers = [timer for timer in self._timers if not timer.cancelled]
        return self._timers


def hand_clock(socket: ClientSocket) -> HandClock:
    """Give a socket that is open a clock of its own; its pings begin anew with it."""
    clock = HandClock()
    socket.stop_keepalive()
    socket.loop = socket.writer.loop = cast("asyncio.AbstractEventLoop", clock)
    socket.schedule_ping()
    return clock
