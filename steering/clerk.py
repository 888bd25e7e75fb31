"""SHELL: writes submissions to their store for the whole process, verdicts behind the events."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from steering.counters import SteerCounters, StoreCounters
from steering.errors import StoreUnavailable
from steering.fair_queue import FairQueue
from steering.loss_log import LossLog
from steering.lost_records import LostRecords
from steering.states import ENDS, SubmissionState
from steering.stores.base import SteerRecord, Verdict
from steering.targets import TargetPhase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from steering.stores.base import SteerStore
    from steering.targets import Submission

log = logging.getLogger("multilane.steering")

#: Seconds between two tries while the store is away.
_RETRY = 0.5
#: Verdicts kept for a store that is away, in all and of one key; beyond them the oldest of the key
#: that has most is lost, and the log says so.
_BACKLOG = 10_000
_BACKLOG_PER_KEY = 5_000
#: Keys whose verdicts are written at a time; each key's own go one after the other.
_AT_ONCE = 8


class VerdictNotStored(StoreUnavailable):
    """What became of a submission was sent as an event, and could not be written down.

    Args:
        steer_id: The submission's id.
        state: The state that it reached.
    """

    def __init__(self, steer_id: str, state: str) -> None:
        super().__init__(
            f"The steer '{steer_id}' is {state}, but that was not stored: "
            "too many verdicts wait for the store."
        )


#: The latest verdict on these ids, of one key, in the order in which they came.
_Backlog = OrderedDict[tuple[str, ...], Verdict]


class Clerk:
    """Appends submissions at once; verdicts wait in memory until the store has them (D20).

    Keys take turns (D29), and verdicts of one key are written in order.

    Args:
        store: Where submissions are kept.
        owner: The id of this process.
        counters: Where lost verdicts are counted.
    """

    def __init__(
        self, store: SteerStore, owner: str, counters: StoreCounters | None = None
    ) -> None:
        self._store = store
        self._owner = owner
        self._counters = counters or StoreCounters()
        #: What became of the process's submissions, as their connections decide it.
        self.steers = SteerCounters()
        # Key id -> its verdicts that are not written; no empty ones.
        self._backlogs: dict[str, _Backlog] = {}
        self._queue: FairQueue[tuple[str, ...]] = FairQueue(_AT_ONCE, 1)
        self._running: set[tuple[str, ...]] = set()
        self._count = 0
        self._lost = LostRecords()
        self._losses = LossLog(log, "verdicts on steers were not stored")
        self._wake = anyio.Event()
        self._emptied = anyio.Event()

    def record(
        self,
        steer_id: str,
        key_id: str,
        target: str,
        value: Any,
        now: float,
        effective: str | None = None,
        event_id: str | None = None,
    ) -> SteerRecord:
        """Return the record of a submission that is about to be accepted.

        Args:
            steer_id: The submission's id.
            key_id: The API key that sent it.
            target: The id of the response that it names.
            value: Its input, a JSON value.
            now: Seconds since the epoch.
            effective: The id of the response that it is taken for, if that is another one.
            event_id: Its client's own name for it.
        """
        data = msgspec.json.encode(value)
        state = SubmissionState.ACCEPTED
        return SteerRecord(
            *(steer_id, key_id, target, data, self._owner, state, now, now),
            effective=effective,
            event_id=event_id,
        )

    async def append(self, record: SteerRecord) -> None:
        """Write a submission down.

        Raises:
            StoreUnavailable: The store is away; the record may be there all the same.
        """
        await self._store.append(record)

    async def find(self, key_id: str, target: str, event_id: str) -> SteerRecord | None:
        """Return the submission that named a response with this `event_id`; none that was refused.

        Args:
            key_id: The API key that sent it.
            target: The id of the response.
            event_id: Its client's own name for it.

        Raises:
            StoreUnavailable: The store is away, or what it says is known to be wrong.
        """
        for record in await self._store.of_response(key_id, target):
            if record.target == target and record.event_id == event_id and not record.refused:
                self.check_lost(key_id, [record.id])
                return record
        return None

    def settle(self, key_id: str, verdict: Verdict) -> None:
        """Queue what became of submissions of a key; `run` writes it, however often that takes."""
        ids = tuple(verdict.ids)
        if verdict.state in ENDS:
            self.steers.outcomes[verdict.state, verdict.reason or ""] += len(ids)
        backlog = self._backlogs.get(key_id, OrderedDict())
        if ids not in backlog:
            if len(backlog) >= _BACKLOG_PER_KEY:
                self._lose_oldest(key_id)
            elif self._count >= _BACKLOG:
                self._lose_oldest(max(self._backlogs, key=lambda key: len(self._backlogs[key])))
            self._queue.put(key_id, ids)
            self._count += 1
        self._backlogs.setdefault(key_id, backlog)[ids] = verdict
        self._wake.set()

    def check_lost(self, key_id: str, steer_ids: Iterable[str]) -> None:
        """Return if no verdict on these submissions of a key is known to be lost.

        Raises:
            VerdictNotStored: One is, and this process remembers it.
        """
        for steer_id in steer_ids:
            state = self._lost.reason(key_id, steer_id)
            if state is not None:
                raise VerdictNotStored(steer_id, state)

    async def run(self) -> None:
        """Write verdicts until cancelled. Call it once."""
        async with anyio.create_task_group() as tasks:
            while True:
                for key_id, ids in self._queue.take_ready():
                    self._running.add(ids)
                    tasks.start_soon(self._write, key_id, ids)
                await self._wake.wait()
                self._wake = anyio.Event()

    async def flush(self, timeout: float) -> None:
        """Wait until all verdicts are written, for at most `timeout` seconds."""
        with anyio.move_on_after(timeout):
            while self._count:
                self._emptied = anyio.Event()
                await self._emptied.wait()
        self._losses.end()

    async def _write(self, key_id: str, ids: tuple[str, ...]) -> None:
        """Try to write the latest verdict on these submissions; again after a pause if need be."""
        verdict = self._backlogs[key_id][ids]
        try:
            await self._store.settle(verdict)
        except StoreUnavailable:
            self._queue.rest()
            self._wake.set()
            await anyio.sleep(_RETRY)
            self._queue.put_back(key_id, ids)
        else:
            self._queue.done(key_id)
            self._written(key_id, ids, verdict)
        self._running.discard(ids)
        self._wake.set()

    def _written(self, key_id: str, ids: tuple[str, ...], verdict: Verdict) -> None:
        self._losses.kept()
        for steer_id in ids:
            self._lost.forget(key_id, steer_id)
        if self._backlogs[key_id][ids] is verdict:
            self._drop(key_id, ids)
        else:  # a later one came meanwhile
            self._queue.put(key_id, ids)

    def _lose_oldest(self, key_id: str) -> None:
        backlog = self._backlogs[key_id]
        ids = next((ids for ids in backlog if ids not in self._running), None)
        if ids is None:
            return
        lost = backlog[ids]
        message = f"the store is away for long: lost that {list(lost.ids)} is {lost.state}"
        self._losses.lost("the store is away for long", message)
        for steer_id in lost.ids:
            self._lost.add(key_id, steer_id, str(lost.state))
        self._counters.steer_verdicts_not_stored += len(lost.ids)
        self._queue.remove(key_id, ids)
        self._drop(key_id, ids)

    def _drop(self, key_id: str, ids: tuple[str, ...]) -> None:
        backlog = self._backlogs[key_id]
        del backlog[ids]
        if not backlog:
            del self._backlogs[key_id]
        self._count -= 1
        if not self._count:
            self._emptied.set()


class Records:
    """The records of the submissions of one connection.

    Args:
        clerk: Writes down what the whole process decides.
        key_id: Names the client's key.
        clock: Seconds since the epoch.
    """

    def __init__(self, clerk: Clerk, key_id: str, clock: Callable[[], float]) -> None:
        self._clerk = clerk
        self._key_id = key_id
        self._clock = clock

    async def append(self, submission: Submission) -> None:
        """Write a submission down.

        Raises:
            StoreUnavailable: The store is away; the record may be there all the same.
        """
        await self._clerk.append(self._record(submission))

    def write(
        self,
        submissions: Sequence[Submission],
        state: SubmissionState,
        *,
        reason: str | None = None,
        successor: str | None = None,
        required: list[dict[str, Any]] | None = None,
    ) -> None:
        """Have it written down, behind the events, that submissions reached a state.

        Args:
            submissions: The submissions.
            state: The state.
            reason: Why they failed or were dropped.
            successor: The id of the response they were committed to.
            required: The stubs of the outputs that they wait for.
        """
        records: dict[tuple[str, str | None], list[str]] = {}
        for submission in submissions:
            effective = None if submission.effective is None else submission.effective.id
            records.setdefault((submission.named.id, effective), []).append(submission.id)
        for (named, effective), ids in records.items():
            stubs = None if required is None else msgspec.json.encode(required)
            verdict = Verdict(named, ids, state, reason, successor, effective, stubs)
            self._clerk.settle(self._key_id, verdict)

    def _record(self, submission: Submission) -> SteerRecord:
        live = submission.of
        effective = None
        if live is not submission.named and live.phase is not TargetPhase.ASKED:
            effective = live.id
        return self._clerk.record(
            submission.id,
            self._key_id,
            submission.named.id,
            submission.input,
            self._clock(),
            effective,
            submission.event_id,
        )
