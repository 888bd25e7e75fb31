"""SHELL: writes responses to their store behind the terminal event, so that no event waits."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import anyio

from lanes.stores.base import NotStoredYet, ResponseNotStored
from lanes.stores.write_queue import WriteBounds, WriteQueue
from steering.counters import StoreCounters
from steering.errors import StoreUnavailable
from steering.loss_log import LossLog
from steering.lost_records import LostRecords

if TYPE_CHECKING:
    from lanes.stores.base import ResponseStore, StoredResponse
    from lanes.stores.write_queue import Write

log = logging.getLogger("multilane.stores")

#: Why a response is lost, in the words that its client reads.
STOPPING: Final = "the gateway stops"
AWAY: Final = "the store did not take it"
BROKEN: Final = "storing it broke by the gateway's own fault"


class ResponseWriter:
    """Writes what is put before one store. `run` does it, in a task of the caller's.

    A parent is written before its children, and keys take turns (D29). What fails for good, or
    does not fit, is logged, counted and remembered for a while, so that whoever asks for it
    learns why it is not there.

    Args:
        store: Where to write.
        bounds: How much may wait.
        attempts: Tries for one write.
        backoff: Seconds between the first two tries; each further pause is twice as long.
        patience: Seconds that `wait_for_write` waits.
        counters: Where writes are counted.
    """

    def __init__(
        self,
        store: ResponseStore,
        *,
        bounds: WriteBounds | None = None,
        attempts: int = 8,
        backoff: float = 0.1,
        patience: float = 1.5,
        counters: StoreCounters | None = None,
    ) -> None:
        self._store = store
        self._attempts = attempts
        self._backoff = backoff
        self._patience = patience
        self._counters = counters or StoreCounters()
        self._queue = WriteQueue(bounds or WriteBounds())
        self._lost = LostRecords()
        self._losses = LossLog(log, "responses were not stored")
        self._turn = anyio.Event()
        self._runs = False
        self._emptied = anyio.Event()
        self._closed = False
        self._finished = anyio.Event()

    @property
    def bytes_waiting(self) -> int:
        """The bytes, roughly, that the queue and the writes under way hold."""
        return self._queue.bytes

    @property
    def waiting(self) -> int:
        """The responses in the queue and under way."""
        return self._queue.count

    async def run(self) -> None:
        """Write until `aclose`. Call it once."""
        self._runs = True
        try:
            async with anyio.create_task_group() as self._tasks:
                while True:
                    self._turn = anyio.Event()
                    for write in self._queue.take_ready():
                        self._tasks.start_soon(self._write, write)
                    await self._turn.wait()
        finally:
            self._runs = False
            self._closed = True
            self._abandon()
            self._finished.set()

    def put(self, response: StoredResponse) -> None:
        """Queue a finished response. Return at once and never fail."""
        if self._closed:
            self._lose(response, STOPPING)
            return
        for write, reason in self._queue.add(response):
            self._lose(write.response, reason)
        self._turn.set()

    async def wait_for_write(self, key_id: str, response_id: str) -> None:
        """Wait until a response is written or given up; return at once if it is not on its way.

        Raises:
            NotStoredYet: It takes longer than `patience`.
        """
        write = self._queue.find(key_id, response_id)
        if write is None:
            return
        with anyio.move_on_after(self._patience):
            await write.done.wait()
            return
        raise NotStoredYet(response_id)

    def check_lost(self, key_id: str, response_id: str) -> None:
        """Return if nothing is known of a response that the store does not have.

        Raises:
            ResponseNotStored: It was not stored, and this process remembers why.
        """
        reason = self._lost.reason(key_id, response_id)
        if reason is not None:
            raise ResponseNotStored(response_id, reason)

    def forget_lost(self, key_id: str, response_id: str) -> bool:
        """Forget that a response was not stored; return whether that was remembered."""
        return self._lost.forget(key_id, response_id)

    async def aclose(self, timeout: float = 5) -> None:
        """Take no more responses, write for at most `timeout` seconds, and end `run`."""
        self._closed = True
        with anyio.move_on_after(timeout):
            while self._queue.count:
                self._emptied = anyio.Event()
                await self._emptied.wait()
        if not self._runs:
            self._abandon()
            return
        self._tasks.cancel_scope.cancel()
        await self._finished.wait()

    def _abandon(self) -> None:
        """Lose whatever still waits, and say so in the log."""
        self._losses.end()
        writes = self._queue.clear()
        if writes:
            log.error("%d responses were not stored before the end", len(writes))
            self._counters.responses_not_stored += len(writes)

    def _lose(self, response: StoredResponse, reason: str, cause: object = None) -> None:
        """Note that a response is lost.

        Args:
            response: The response.
            reason: Why, in the words that its client reads.
            cause: What the log says of it beside that.
        """
        why = reason if cause is None else f"{reason}: {cause!r}"
        self._losses.lost(reason, f"response {response.id} was not stored: {why}")
        self._counters.responses_not_stored += 1
        self._lost.add(response.key_id, response.id, reason)

    async def _write(self, write: Write) -> None:
        """Try a write; it ends, or has its next turn after a pause."""
        write.tries += 1
        try:
            await self._store.save(write.response)
        except StoreUnavailable as error:
            if write.tries < self._attempts:
                await self._pause(write)
                return
            self._lose(write.response, AWAY, error.__cause__ or error)
        except Exception:  # noqa: BLE001 - it is logged, and the others are still written (D18)
            message = f"storing response {write.response.id} broke by our own fault"
            self._losses.lost(BROKEN, message, traced=True)
            self._counters.responses_not_stored += 1
            self._lost.add(write.response.key_id, write.response.id, BROKEN)
        else:
            self._counters.responses_stored += 1
            self._losses.kept()
        self._queue.end(write)
        if not self._queue.count:
            self._emptied.set()
        self._turn.set()

    async def _pause(self, write: Write) -> None:
        """Leave the turn to others until the next try."""
        self._counters.store_write_retries += 1
        self._queue.rest()
        self._turn.set()
        await anyio.sleep(self._backoff * 2 ** (write.tries - 1))
        self._queue.retry(write)
        self._turn.set()
