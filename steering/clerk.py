"""SHELL: writes submissions down for the whole process, in order and off every path."""

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

#: Seconds between tries to write while the store is away.
_RETRY = 0.5
#: Verdicts kept for a store that is away; beyond it the oldest are lost, and said to be.
_BACKLOG = 10_000


@dataclass(frozen=True, slots=True)
class _Verdict:
    target: str
    ids: list[str]
    state: SubmissionState
    reason: str | None
    successor: str | None


class Clerk:
    """Appends at once, settles behind: verdicts wait in memory until the store has them."""

    def __init__(self, store: SteerStore, owner: str) -> None:
        self._store = store
        self._owner = owner
        # By the submissions they are about, so that only the latest word is still to be written.
        self._verdicts: OrderedDict[tuple[str, ...], _Verdict] = OrderedDict()
        self._wake = anyio.Event()
        self._written = anyio.Event()

    def record(
        self, steer_id: str, key_id: str, target: str, value: Any, now: float
    ) -> SteerRecord:
        """The record of a submission that is about to be accepted."""
        data = msgspec.json.encode(value)
        return SteerRecord(
            steer_id, key_id, target, data, self._owner, SubmissionState.ACCEPTED, now, now
        )

    async def append(self, record: SteerRecord) -> None:
        """Write a submission down. Raises StoreUnavailable; it may be there all the same."""
        await self._store.append(record)

    def settle(
        self,
        target: str,
        ids: Sequence[str],
        state: SubmissionState,
        reason: str | None,
        successor: str | None,
    ) -> None:
        """Note what became of submissions; written soon, and again until it is."""
        if len(self._verdicts) >= _BACKLOG:
            _, lost = self._verdicts.popitem(last=False)
            log.error("the store is away for long: lost that %s is %s", lost.ids, lost.state)
        self._verdicts[tuple(ids)] = _Verdict(target, list(ids), state, reason, successor)
        self._wake.set()

    async def run(self) -> None:
        """Write verdicts for ever; to be run by one task."""
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
                if self._verdicts.get(ids) is verdict:  # else there is news meanwhile
                    del self._verdicts[ids]
            self._written.set()

    async def flush(self, timeout: float) -> None:
        """Wait until all verdicts are written, `timeout` seconds at most."""
        with anyio.move_on_after(timeout):
            while self._verdicts:
                self._written = anyio.Event()
                await self._written.wait()
