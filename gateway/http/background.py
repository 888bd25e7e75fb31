"""SHELL: responses that run in the background of this process (protocol.md 7, D37).

They are carried as any other, with a log of their events. Beside that each is written to the
store as it goes on, so that every process can tell how it is, and asked there whether it is to
be cancelled.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from gateway.http.collector import said
from gateway.http.event_log import EventLog
from lanes.errors import ClientFault, Fault, UpstreamFault, own_fault
from lanes.stores.background import Progress, ResponseName
from steering.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.http.running import RunningResponses
    from gateway.persistence.stores import Stores
    from lanes.frames import Create
    from lanes.worker import Worker

log = logging.getLogger("multilane.stores")

#: Seconds between two writes of what has come, and between two questions what to cancel.
_PACE: Final = 0.25
#: Seconds until a store that is away is asked again.
_AGAIN: Final = 1.0
#: Responses in the background of one API key in one process.
MAX_RUNNING: Final = 128


@dataclass(slots=True, eq=False)
class BackgroundRun:
    """One response that runs here.

    Attributes:
        key_id: The API key whose it is.
        worker: Carries it.
        log: Its events.
        name: Its name, once it has begun.
        entered: Set once the store has it, or once there is a fault instead.
        fault: Why the store does not have it.
    """

    key_id: str
    worker: Worker
    log: EventLog = field(default_factory=EventLog)
    name: ResponseName = field(default=ResponseName("", ""))
    entered: anyio.Event = field(default_factory=anyio.Event)
    fault: Fault | None = None


class BackgroundResponses:
    """The responses in the background that run in this process.

    Args:
        stores: Where they are written.
        running: Where they run.
    """

    def __init__(self, stores: Stores, running: RunningResponses) -> None:
        self._store = stores.background
        self._archive = stores.archive
        self._running = running
        self._listens = False
        self._counts: dict[str, int] = {}
        # By API key and id, from the moment the store has it until the store has its end.
        self._runs: dict[ResponseName, BackgroundRun] = {}

    def find(self, name: ResponseName) -> BackgroundRun | None:
        """Return a response that runs here."""
        return self._runs.get(name)

    async def start(self, key_id: str, create: Create, make: Callable[[EventLog], Worker]) -> bytes:
        """Start a response, and return its object once the store has it.

        Args:
            key_id: The API key that asks.
            create: The create.
            make: Makes its worker.

        Raises:
            ClientFault: It cannot be kept, or too many run, or the create is refused.
        """
        if create.body.get("store") is False:
            message = "'store' must not be false with 'background': nobody could read the response."
            raise ClientFault(message, code="invalid_value", param="store")
        if self._counts.get(key_id, 0) >= MAX_RUNNING:
            raise _too_many()
        events = EventLog()
        run = BackgroundRun(key_id, make(events), events)
        events.on_full = partial(
            run.worker.stop, own_fault("The response has more events than are kept.")
        )
        self._counts[key_id] = self._counts.get(key_id, 0) + 1
        self._running.start(self._carry, run, create)
        await run.entered.wait()
        fault = run.fault or events.fault
        if fault is not None:
            raise fault
        return events.first

    async def cancel(self, run: BackgroundRun) -> bytes:
        """Cancel a response that runs here, and return its final object."""
        run.worker.cancel(run.name.id, "cancelled")
        await run.log.over.wait()
        return run.log.response

    def forget(self, run: BackgroundRun) -> None:
        """Find a response no more that was deleted, though its end may not be written yet."""
        self._runs.pop(run.name, None)

    async def _carry(self, run: BackgroundRun, create: Create) -> None:
        try:
            with self._running.running(run.worker):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._write, run)
                    await run.worker.carry(create)
                    run.log.end()
        finally:
            self._counts[run.key_id] -= 1
            if not self._counts[run.key_id]:
                del self._counts[run.key_id]

    async def _write(self, run: BackgroundRun) -> None:
        """Write a response to the store from its beginning to its end."""
        await run.log.decided.wait()
        if run.log.fault is not None:
            run.entered.set()
            return
        run.name = ResponseName(run.key_id, said(run.log.snapshot).id)
        try:
            await self._store.open(run.name, run.log.snapshot, run.worker.made_from(run.name.id))
        except StoreUnavailable:
            run.fault = _store_unavailable()
            run.worker.stop(run.fault)
            run.entered.set()
            return
        self._runs[run.name] = run
        if not self._listens:
            self._listens = True
            self._running.start(self._listen)
        run.entered.set()
        try:
            await self._follow(run)
        finally:
            self._runs.pop(run.name, None)

    async def _follow(self, run: BackgroundRun) -> None:
        """Write what comes until the end."""
        over, written = run.log.over, 0
        while not over.is_set():
            with anyio.move_on_after(_PACE):
                await over.wait()
            events = run.log.events[written:]
            if not events or over.is_set():
                continue
            with suppress(StoreUnavailable):  # the next time
                progress = Progress(run.log.snapshot, written, events)
                runs = await self._store.advance(run.name, progress)
                written += len(events)
                if not runs:  # it was deleted, or taken for dead
                    run.worker.cancel(run.name.id, "cancelled")
        await self._finish(run, written)

    async def _listen(self) -> None:
        """Cancel what other processes want cancelled, as long as anything runs."""
        while self._runs:
            await anyio.sleep(_PACE)
            with suppress(StoreUnavailable):
                for name in await self._store.asked_to_cancel():
                    if name in self._runs:
                        self._runs[name].worker.cancel(name.id, "cancelled")
        self._listens = False

    async def _finish(self, run: BackgroundRun, written: int) -> None:
        """Write the end, however often that takes while the gateway runs."""
        events, response = run.log.events, run.log.response
        while True:
            try:
                await self._store.advance(run.name, Progress(response, written, events[written:]))
                if not await self._store.finish(run.name, response):
                    await self._archive.delete(*run.name)
            except (StoreUnavailable, Fault):
                if self._running.stopped:
                    log.warning("%s is lost: the gateway stops, and its store is away", run.name.id)
                    return
                await anyio.sleep(_AGAIN)
            else:
                return


def _too_many() -> ClientFault:
    return ClientFault(
        f"{MAX_RUNNING} responses of this key run in the background, the most that may.",
        code="too_many_background_responses",
        status=429,
        headers={"retry-after": "5"},
    )


def _store_unavailable() -> UpstreamFault:
    return UpstreamFault(
        "The response store is not available, and a response in the background needs it.",
        code="store_unavailable",
        status=503,
        type="server_error",
    )
