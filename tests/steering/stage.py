"""A whole connection in memory, on a loop that turns only when it is told to.

Board, worker, run, lineage, desk, ledger and clerk are the real ones; socket, backend and store are
the play's. Everything the client gets is judged.
"""

from __future__ import annotations

import asyncio
import json
import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from gateway.client.connection import ClientConnection
from gateway.client.options import ConnectionOptions
from gateway.config.settings import Settings
from lanes.quota import NO_LIMITS
from steering.clerk import Clerk
from steering.errors import StoreUnavailable
from steering.stores.memory import MemorySteerStore
from tests.steering.backend import Backend
from tests.support.judge import StreamJudge

if TYPE_CHECKING:
    from gateway.client.socket import ClientSocket
    from lanes.ports import Upstream
    from steering.stores.base import SteerRecord, Verdict

MAX_ACTIVE, MAX_STEERS = 2, 4
Event = dict[str, Any]


class Store(MemorySteerStore):
    """A store that answers an append when it is told to, and fails to settle now and then."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.asked: list[tuple[SteerRecord, asyncio.Future[str]]] = []
        self.trouble: list[str] = []
        self._loop = loop

    async def append(self, record: SteerRecord) -> None:
        how: asyncio.Future[str] = self._loop.create_future()
        self.asked.append((record, how))
        told = "applied"  # the connection ended meanwhile, and the store was asked all the same
        try:
            told = await how
        finally:
            if told != "failed":
                await super().append(record)
        if told != "ok":
            raise StoreUnavailable(told)

    async def settle(self, verdict: Verdict) -> None:
        told = self.trouble.pop() if self.trouble else "ok"
        if told != "failed":
            await super().settle(verdict)
        if told != "ok":
            raise StoreUnavailable(told)

    def answer(self, pick: int, how: str) -> None:
        """ok; failed, and not done; or failed, but done."""
        waiting = [future for _, future in self.asked if not future.done()]
        if waiting:
            waiting[pick % len(waiting)].set_result(how)

    def written(self, steer_id: str) -> SteerRecord | None:
        return self._records.get(self._targets.get(steer_id, ""), {}).get(steer_id)


class _Socket:
    """What the connection writes to; frames are kept for `Stage.turn` to read."""

    def __init__(self) -> None:
        self.frames = bytearray()
        self.unsent = 0
        self.ended: int | None = None
        self.rest = b""

    def bound(self, *_: object) -> None:
        """Nothing is ever full here."""

    def notify(self, kind: str) -> None:
        """Nobody grows old here."""

    def write_frames(self, frames: bytes) -> None:
        self.frames += frames

    def end(self, code: int, reason: str = "") -> None:
        self.ended = code

    def read(self) -> list[Event]:
        """The events of all frames so far."""
        events, data = [], bytes(self.frames)
        self.frames.clear()
        while data:
            size, at = data[1], 2
            if size >= 126:
                at = 4 if size == 126 else 10
                size = int.from_bytes(data[2:at])
            events.append(json.loads(data[at : at + size]))
            data = data[at + size :]
        return events


class Stage(logging.Handler):
    """One connection; `turn` lets it go on and returns the events that came of it."""

    def __init__(self, *, cuts_text: bool = True, backend: type[Backend] = Backend) -> None:
        super().__init__(logging.ERROR)
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(self._broke)
        self.backend = backend(self.loop, cuts_text=cuts_text, max_active=MAX_ACTIVE)
        self.store = Store(self.loop)
        self.judge = StreamJudge()
        self.socket = _Socket()
        self.faults: list[BaseException | str] = []
        self._inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._clerk = Clerk(self.store, "owner")
        #: What became of each submission when it was committed; events do not tell it of all.
        self.committed: dict[str, str | None] = {}
        self._settle, self._clerk.settle = self._clerk.settle, self._note  # type: ignore[method-assign]
        self.judge.steers.repeats = True
        self.judge.steers.successor_of = self.committed.get
        self._tasks = [self.loop.create_task(self._clerk.run())]
        self._serving = self.loop.create_task(self._serve())
        logging.getLogger().addHandler(self)
        self.turn()
        if self._serving.done():
            self._serving.result()

    def _note(self, key_id: str, verdict: Verdict) -> None:
        if verdict.state == "committed":
            self.committed |= dict.fromkeys(verdict.ids, verdict.successor)
        self._settle(key_id, verdict)

    async def _serve(self) -> None:
        records: Any = SimpleNamespace(clerk=self._clerk, archive=_NoArchive())
        self.connection = ClientConnection(
            cast("ClientSocket", self.socket),
            cast("Upstream", self.backend),
            records,
            Settings(max_active=MAX_ACTIVE, max_steers=MAX_STEERS),
            "key",
            {},
            None,
            NO_LIMITS,
            options=ConnectionOptions(steering=True),
        )
        await self.connection.serve(self._inbox.get)

    def send(self, frame: Event) -> None:
        data = json.dumps(frame).encode()
        self._inbox.put_nowait({"type": "websocket.receive", "bytes": data, "is_text": True})

    def drain(self, timeout: float) -> None:
        """The gateway stops, with so much time for what runs."""

        async def drain() -> None:
            self.connection.drain(timeout)

        self._tasks.append(self.loop.create_task(drain()))

    def leave(self) -> None:
        """The client is gone, and all it had is cleared up."""
        self._inbox.put_nowait({"type": "websocket.disconnect"})
        self.turn()
        assert self._serving.done(), "the connection does not end"
        self._serving.result()

    def turn(self, turns: int = 500) -> list[Event]:
        """Let the loop turn so often, or until nothing is left to do."""
        for _ in range(turns):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()
            if not self.loop._ready:  # type: ignore[attr-defined]  # asyncio's own, in Python
                break
        if self.faults:
            raise AssertionError(self.faults)
        events = self.socket.read()
        for event in events:
            self.judge.receive(event)
        return events

    def clear(self) -> None:
        """Leave nothing behind."""
        logging.getLogger().removeHandler(self)
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        for _ in range(50):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()
        self.loop.close()

    def emit(self, record: logging.LogRecord) -> None:
        self.faults.append(record.exc_info[1] if record.exc_info else record.getMessage())  # type: ignore[arg-type]

    def _broke(self, _: object, context: dict[str, Any]) -> None:
        self.faults.append(context.get("exception") or context["message"])


class _NoArchive:
    max_chain = 10_000
    conversations = None
    seals = None

    async def find(self, *_: object) -> None:
        """Nothing is stored."""
