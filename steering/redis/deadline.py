"""A bound of time that is kept even by code that swallows a cancellation."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

#: Seconds after which the end is asked for again.
INSIST: Final = 0.1


class Deadline:
    """As `asyncio.timeout`: raises TimeoutError when `seconds` have passed. But it insists.

    asyncio.wait_for, which clients of engines use, swallows a cancellation before Python 3.12 if
    what it waits for is done at that very moment: what follows would have no end at all.
    """

    __slots__ = ("_before", "_handle", "_loop", "_seconds", "_strikes", "_task")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._strikes = 0

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._before = task.cancelling()
        self._loop = asyncio.get_running_loop()
        self._handle = self._loop.call_later(self._seconds, self._strike)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._handle.cancel()
        if not self._strikes:
            return
        for _ in range(self._strikes):
            left = self._task.uncancel()
        if left <= self._before and isinstance(error, asyncio.CancelledError):
            raise TimeoutError from error

    def _strike(self) -> None:
        self._strikes += 1
        self._task.cancel()
        self._handle = self._loop.call_later(INSIST, self._strike)
