"""Turns at something that takes few callers at a time, shared fairly between keys."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from steering.fair_queue import FairQueue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class FairTurns:
    """A semaphore whose waiters go by turns of their keys (D29).

    Args:
        at_once: Turns at a time.
        per_key: Turns at a time of one key.
    """

    def __init__(self, at_once: int, per_key: int) -> None:
        self._queue: FairQueue[asyncio.Future[None]] = FairQueue(at_once, per_key)

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """Wait for a turn of this key, and have it while the block runs."""
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.put(key, granted)
        self._grant()
        try:
            await granted  # does not suspend if it is granted already
        except asyncio.CancelledError:
            if granted.cancelled():
                self._queue.remove(key, granted)
            else:  # it was granted in the moment of the cancellation
                self._end(key)
            raise
        try:
            yield
        finally:
            self._end(key)

    def _end(self, key: str) -> None:
        self._queue.done(key)
        self._grant()

    def _grant(self) -> None:
        for key, granted in self._queue.take_ready():
            if granted.cancelled():  # and its task did not run since
                self._queue.done(key)
            else:
                granted.set_result(None)
