"""A time limit that holds even for code that swallows a cancellation."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

#: Seconds between two cancellations of a task that goes on.
CANCEL_AGAIN: Final = 0.1


class Deadline:
    """Raises TimeoutError after `seconds`, like `asyncio.timeout`, and cancels until that works.

    Redis clients use asyncio.wait_for. Before Python 3.12 it swallows a cancellation if its result
    arrives at that very moment, and what follows would then run without any limit.
    """

    __slots__ = ("_cancellations", "_cancelling_before", "_handle", "_loop", "_seconds", "_task")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._cancellations = 0

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling_before = task.cancelling()
        self._loop = asyncio.get_running_loop()
        self._handle = self._loop.call_later(self._seconds, self._cancel)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._handle.cancel()
        if not self._cancellations:
            return
        for _ in range(self._cancellations):
            left = self._task.uncancel()
        if left <= self._cancelling_before and isinstance(error, asyncio.CancelledError):
            raise TimeoutError from error

    def _cancel(self) -> None:
        self._cancellations += 1
        self._task.cancel()
        self._handle = self._loop.call_later(CANCEL_AGAIN, self._cancel)
