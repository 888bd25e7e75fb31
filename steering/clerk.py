"""SHELL: writes submissions to their store for the whole process, verdicts behind the events."""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from steering.errors import StoreUnavailable
from steering.states import SubmissionState
from steering.stores.base import SteerRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steering.stores.base import SteerStore

log = logging.getLogger("multilane.steering")

#: Seconds between two tries while the store is away.
_RETRY = 0.5
#: Verdicts kept for a store that is away; beyond them the oldest is lost, and the log says so.
_BACKLOG = 10_000


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What became of some submissions of one response."""

    target: str
    ids: list[str]
    state: SubmissionState
    reason: str | None
    successor: str | None


class Clerk:
    """Appends submissions at once; verdicts wait in memory until the store has them (D20)."""

    def __init__(self, store: SteerStore, owner: str) -> None:
        self._store = store
        self._owner = owner
        # By submission ids, so that only the latest verdict on them is written.
        self._verdicts: OrderedDict[tuple[str, ...], _Verdict] = OrderedDict()
        self._wake = anyio.Event()
        self._written = anyio.Event()

    def record(
        self, steer_id: str, key_id: str, target: str, value: Any, now: float
    ) -> SteerRecord:
        """Return the record of a submission that is about to be accepted.

        Args:
            steer_id: The submission's id.
            key_id: The API key that sent it.
            target: The id of the response it steers.
            value: Its input, a JSON value.
            now: Seconds since the epoch.
        """
        data = msgspec.json.encode(value)
        return SteerRecord(
            steer_id, key_id, target, data, self._owner, SubmissionState.ACCEPTED, now, now
        )

    async def append(self, record: SteerRecord) -> None:
        """Write a submission down.

        Raises:
            StoreUnavailable: The store is away; the record may be there all the same.
        """
        await self._store.append(record)

    def settle(
        self,
        target: str,
        ids: Sequence[str],
        state: SubmissionState,
        reason: str | None,
        successor: str | None,
    ) -> None:
        """Queue what became of submissions; `run` writes it, however often that takes.

        Args:
            target: The id of the response.
            ids: The submissions' ids.
            state: The state that they reached.
            reason: Why they failed or were dropped.
            successor: The id of the response they were committed to.
        """
        if len(self._verdicts) >= _BACKLOG:
            _, lost = self._verdicts.popitem(last=False)
            log.error("the store is away for long: lost that %s is %s", lost.ids, lost.state)
        self._verdicts[tuple(ids)] = _Verdict(target, list(ids), state, reason, successor)
        self._wake.set()

    async def run(self) -> None:
        """Write verdicts until cancelled, in one task."""
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            while self._verdicts:
                ids, verdict = next(iter(self._verdicts.items()))
                try:
                    await self._store.settle(
                        verdict.target,
                        verdict.ids,
                        verdict.state,
                        reason=verdict.reason,
                        successor=verdict.successor,
                    )
                except StoreUnavailable:
                    await anyio.sleep(_RETRY)
                    continue
                if self._verdicts.get(ids) is verdict:  # else a later one came meanwhile
                    del self._verdicts[ids]
            self._written.set()

    async def flush(self, timeout: float) -> None:
        """Wait until all verdicts are written, for at most `timeout` seconds."""
        with anyio.move_on_after(timeout):
            while self._verdicts:
                self._written = anyio.Event()
                await self._written.wait()
