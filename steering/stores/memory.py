"""Submissions in this process only: for tests, and where no engine is wanted."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING

from steering.states import ENDS, SubmissionState
from steering.stores.base import OWNER_GONE, SOURCES, TTL, SteerRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from steering.stores.base import OwnerWatch

_End = tuple[SubmissionState, str | None, str | None, float]

#: Bytes of input kept; over it the responses go first that were written to longest ago.
LIMIT_BYTES = 64 << 20


class NobodyGone:
    """Knows of nobody that they are gone: all owners are this very process."""

    async def gone(self, owners: Collection[str]) -> set[str]:  # noqa: ARG002
        """Nobody."""
        return set()


class MemorySteerStore:
    """A SteerStore in dicts. Nothing of it survives the process."""

    def __init__(
        self,
        watch: OwnerWatch | None = None,
        *,
        ttl: float = TTL,
        limit_bytes: int = LIMIT_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._watch = watch or NobodyGone()
        self._ttl = ttl
        self._limit = limit_bytes
        self._clock = clock
        self._bytes = 0
        # Response id -> when it was last written to and its records; the longest ago comes first.
        self._written: OrderedDict[str, float] = OrderedDict()
        self._records: dict[str, dict[str, SteerRecord]] = {}
        self._targets: dict[str, str] = {}
        # Response id -> the ends of submissions that are not there yet.
        self._early: dict[str, dict[str, _End]] = {}

    async def append(self, record: SteerRecord) -> None:
        """Write a submission down, or move it on."""
        if record.id in self._targets:
            at = record.updated_at
            self._move(record.id, record.state, record.reason, record.successor, at)
        else:
            self._targets[record.id] = record.target
            if end := self._early.get(record.target, {}).pop(record.id, None):
                state, reason, successor, at = end
                record = replace(
                    record, state=state, reason=reason, successor=successor, updated_at=at
                )
            self._records.setdefault(record.target, {})[record.id] = record
            self._bytes += len(record.input)
        self._touch(record.target)
        self._tidy()

    async def settle(
        self,
        target: str,
        ids: Sequence[str],
        state: SubmissionState,
        *,
        reason: str | None = None,
        successor: str | None = None,
    ) -> None:
        """Move submissions of one response on."""
        now = self._clock()
        for steer_id in ids:
            known = self._targets.get(steer_id)
            if known == target:
                self._move(steer_id, state, reason, successor, now)
            elif known is None and state in ENDS:
                early = self._early.setdefault(target, {})
                early.setdefault(steer_id, (state, reason, successor, now))
                self._touch(target)

    async def of_response(self, key_id: str, response_id: str) -> list[SteerRecord]:
        """The submissions of a response by `created_at`."""
        self._tidy()
        await self._drop(response_id, list(self._records.get(response_id, {})))
        found = self._records.get(response_id, {}).values()
        return sorted((r for r in found if r.key_id == key_id), key=lambda r: r.created_at)

    async def get(self, key_id: str, steer_id: str) -> SteerRecord | None:
        """One submission."""
        self._tidy()
        if (target := self._targets.get(steer_id)) is None:
            return None
        await self._drop(target, [steer_id])
        record = self._records.get(target, {}).get(steer_id)
        return record if record and record.key_id == key_id else None

    async def aclose(self) -> None:
        """Nothing to let go of."""

    def _move(
        self,
        steer_id: str,
        state: SubmissionState,
        reason: str | None,
        successor: str | None,
        at: float,
    ) -> None:
        target = self._targets[steer_id]
        record = self._records[target][steer_id]
        if record.state in SOURCES[state]:
            self._records[target][steer_id] = replace(
                record,
                state=state,
                updated_at=at,
                reason=record.reason if reason is None else reason,
                successor=record.successor if successor is None else successor,
            )
            self._touch(target)

    async def _drop(self, target: str, ids: Sequence[str]) -> None:
        """Drop those submissions of a response whose owners are gone."""
        records = [self._records[target][steer_id] for steer_id in ids]
        left = [record for record in records if record.state not in ENDS]
        if left:
            gone = await self._watch.gone({record.owner for record in left})
            lost = [record.id for record in left if record.owner in gone]
            await self.settle(target, lost, SubmissionState.DROPPED, reason=OWNER_GONE)

    def _touch(self, target: str) -> None:
        self._written[target] = self._clock()
        self._written.move_to_end(target)

    def _tidy(self) -> None:
        """Forget the responses that are too old, or too many."""
        since = self._clock() - self._ttl
        while self._written:
            target, written = next(iter(self._written.items()))
            if written > since and (self._bytes <= self._limit or len(self._written) == 1):
                return
            del self._written[target]
            self._early.pop(target, None)
            for record in self._records.pop(target, {}).values():
                del self._targets[record.id]
                self._bytes -= len(record.input)
