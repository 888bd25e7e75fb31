"""SHELL: writes responses to their store behind the terminal event, so that no event waits."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from lanes.history.lineage import ENTRY_BYTES, NODE_BYTES
from lanes.stores.base import NotStoredYet
from steering.errors import StoreUnavailable

if TYPE_CHECKING:
    from lanes.stores.base import ResponseStore, StoredResponse

log = logging.getLogger("multilane.stores")


@dataclass(slots=True, eq=False)
class _Write:
    """A response on its way to the store, behind its parent."""

    response: StoredResponse
    size: int
    parent: _Write | None
    done: anyio.Event = field(default_factory=anyio.Event)


class ResponseWriter:
    """The queue before one store. `run` writes, in a task of the caller's.

    A parent is written before its children. A write that fails for good, or finds the queue full,
    is logged and forgotten: its id is then unknown (`previous_response_not_found`), which tells a
    client to send its whole input again.

    Args:
        store: Where to write.
        max_bytes: Bytes that may wait.
        writers: Writes at a time.
        attempts: Tries for one write.
        backoff: Seconds between the first two tries; each further pause is twice as long.
        patience: Seconds that `wait_for_write` waits.
    """

    def __init__(
        self,
        store: ResponseStore,
        *,
        max_bytes: int = 64 * 1024 * 1024,
        writers: int = 4,
        attempts: int = 8,
        backoff: float = 0.1,
        patience: float = 1.5,
    ) -> None:
        self._store = store
        self._max_bytes = max_bytes
        self._writers = writers
        self._attempts = attempts
        self._backoff = backoff
        self._patience = patience
        self._queue: deque[_Write] = deque()
        # One turn for each write in the queue; at the end one for each writer, which then stops.
        self._turns = anyio.Semaphore(0)
        # (key id, response id) -> what is in the queue or being written.
        self._waiting: dict[tuple[str, str], _Write] = {}
        self._bytes = 0
        self._scope: anyio.CancelScope | None = None  # made in `run`, since it needs a loop
        self._closed = self._running = False
        self._finished = anyio.Event()

    @property
    def bytes_waiting(self) -> int:
        """The bytes, roughly, that the queue and the writes under way hold."""
        return self._bytes

    async def run(self) -> None:
        """Write until `aclose`. Call it once."""
        try:
            self._running = True
            with anyio.CancelScope() as self._scope:
                async with anyio.create_task_group() as tasks:
                    for _ in range(self._writers):
                        tasks.start_soon(self._write_all)
        finally:
            self._closed = True
            self._abandon()
            self._finished.set()

    def put(self, response: StoredResponse) -> None:
        """Queue a finished response. Return at once and never fail."""
        entries = response.input_items + response.output_items
        size = len(response.body) + sum(ENTRY_BYTES + len(entry.data) for entry in entries)
        key = (response.key_id, response.id)
        if key in self._waiting:
            return
        # The first response always fits.
        if self._closed or (self._bytes and self._bytes + size > self._max_bytes):
            reason = "the gateway stops" if self._closed else "too many wait for the store"
            log.error("response %s was not stored: %s", response.id, reason)
            return
        parent = response.parent_id and self._waiting.get((response.key_id, response.parent_id))
        write = _Write(response, NODE_BYTES + size, parent or None)
        self._waiting[key] = write
        self._bytes += write.size
        self._queue.append(write)
        self._turns.release()

    async def wait_for_write(self, key_id: str, response_id: str) -> None:
        """Wait until a response is written or given up; return at once if it is not on its way.

        Raises:
            NotStoredYet: It takes longer than `patience`.
        """
        write = self._waiting.get((key_id, response_id))
        if write is None:
            return
        with anyio.move_on_after(self._patience):
            await write.done.wait()
            return
        raise NotStoredYet(response_id)

    async def aclose(self, timeout: float = 5) -> None:
        """Take no more responses, write for at most `timeout` seconds, and end `run`."""
        if not self._closed:
            self._closed = True
            for _ in range(self._writers):
                self._turns.release()
        with anyio.move_on_after(timeout):
            if self._running or self._waiting:  # else there is nothing to wait for
                await self._finished.wait()
            return
        if self._scope is not None:
            self._scope.cancel()
        if self._running:
            await self._finished.wait()
        else:
            self._abandon()

    def _abandon(self) -> None:
        """Lose whatever still waits, and say so in the log."""
        if self._waiting:
            log.error("%d responses were not stored before the end", len(self._waiting))
        for write in self._waiting.values():
            write.done.set()
        self._waiting.clear()
        self._queue.clear()

    async def _write_all(self) -> None:
        while True:
            await self._turns.acquire()
            if not self._queue:
                return
            write = self._queue.popleft()
            # The parent was queued first, so some writer has it already.
            if write.parent is not None:
                await write.parent.done.wait()
                write.parent = None
            try:
                await self._write(write.response)
            except Exception:  # this response is lost, and the others are still written (D18)
                log.exception("storing response %s broke by our own fault", write.response.id)
            self._bytes -= write.size
            del self._waiting[write.response.key_id, write.response.id]
            write.done.set()

    async def _write(self, response: StoredResponse) -> None:
        pause = self._backoff
        for attempt in range(self._attempts):
            if attempt:
                await anyio.sleep(pause)
                pause *= 2
            try:
                await self._store.save(response)
            except StoreUnavailable as error:
                cause = error.__cause__ or error
            else:
                return
        log.error("response %s was not stored: %r", response.id, cause)
