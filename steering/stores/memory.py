"""The store of submissions in memory, for tests and for gateways without an engine."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING

from steering.states import ENDS, SubmissionState
from steering.stores.base import OWNER_GONE, RECORD_TTL, SOURCES, SteerRecord, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from steering.stores.base import OwnerWatch

#: A verdict that came before its submission, and when.
_EarlyEnd = tuple[Verdict, float]

#: Bytes of input kept.
LIMIT_BYTES = 64 << 20


class NobodyGone:
    """An OwnerWatch that sees no owner gone: all of them are this process."""

    async def gone(self, owners: Collection[str]) -> set[str]:  # noqa: ARG002
        """Return an empty set."""
        return set()


class MemorySteerStore:
    """A SteerStore in dicts; nothing survives the process.

    Args:
        watch: Knows which owners are gone; by default none is.
        ttl: Seconds a record is kept after its last write.
        limit_bytes: Bytes of input kept in all; beyond them the key that has most forgets the
            responses it wrote to longest ago, so that no key makes another forget (D29).
        clock: Returns seconds since the epoch.
    """

    def __init__(
        self,
        watch: OwnerWatch | None = None,
        *,
        ttl: float = RECORD_TTL,
        limit_bytes: int = LIMIT_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._watch = watch or NobodyGone()
        self._ttl = ttl
        self._limit = limit_bytes
        self._clock = clock
        self._bytes = 0
        # Response id -> time of its last write, the oldest first.
        self._written: OrderedDict[str, float] = OrderedDict()
        # Key id -> response id -> bytes of its input, in the same order; no empty ones.
        self._by_key: dict[str, OrderedDict[str, int]] = {}
        # Key id -> bytes; no zeros.
        self._bytes_by_key: Counter[str] = Counter()
        # Response id -> submission id -> record.
        self._records: dict[str, dict[str, SteerRecord]] = {}
        # Submission id -> response id.
        self._targets: dict[str, str] = {}
        # Response id -> the submissions that were taken for it though they name another one.
        self._taken: dict[str, dict[str, None]] = {}
        # Response id -> submission id -> its end, for submissions that are not there yet.
        self._early: dict[str, dict[str, _EarlyEnd]] = {}

    async def append(self, record: SteerRecord) -> None:
        """Write a submission down or move it on (see `SteerStore.append`)."""
        if record.id in self._targets:
            says = Verdict(
                *(record.target, [record.id], record.state, record.reason, record.successor),
                required=record.required,
            )
            self._move(record.id, says, record.updated_at)
        else:
            self._targets[record.id] = record.target
            if early := self._early.get(record.target, {}).pop(record.id, None):
                end, at = early
                record = replace(
                    record,
                    state=end.state,
                    reason=end.reason,
                    successor=end.successor,
                    updated_at=at,
                    effective=end.effective,
                )
            self._records.setdefault(record.target, {})[record.id] = record
            self._count(record)
            self._take(record.id, record.effective)
        kept = self._records[self._targets[record.id]][record.id]
        self._touch(kept.target, kept.key_id)  # another key may write an id that is there
        self._expire()

    async def settle(self, verdict: Verdict) -> None:
        """Move submissions of one response on (see `SteerStore.settle`)."""
        now, target = self._clock(), verdict.target
        for steer_id in verdict.ids:
            recorded = self._targets.get(steer_id)
            if recorded == target:
                self._move(steer_id, verdict, now)
                self._take(steer_id, verdict.effective)
            elif recorded is None and verdict.state in ENDS:
                self._early.setdefault(target, {}).setdefault(steer_id, (verdict, now))
                self._touch(target)

    async def of_response(self, key_id: str, response_id: str) -> list[SteerRecord]:
        """Return the submissions of a response (see `SteerStore.of_response`)."""
        self._expire()
        for target, ids in self._listed(response_id).items():
            await self._drop_orphans(target, ids)
        records = (
            self._records[target][steer_id]
            for target, ids in self._listed(response_id).items()
            for steer_id in ids
        )
        return sorted((r for r in records if r.key_id == key_id), key=lambda r: r.created_at)

    async def get(self, key_id: str, steer_id: str) -> SteerRecord | None:
        """Return one submission (see `SteerStore.get`)."""
        self._expire()
        if (target := self._targets.get(steer_id)) is None:
            return None
        await self._drop_orphans(target, [steer_id])
        record = self._records.get(target, {}).get(steer_id)
        return record if record and record.key_id == key_id else None

    async def aclose(self) -> None:
        """Do nothing: there is nothing to let go of."""

    def _listed(self, response_id: str) -> dict[str, list[str]]:
        """Return the submissions that named a response or were taken for it, by what they named."""
        listed = {response_id: list(self._records.get(response_id, ()))}
        for steer_id in self._taken.get(response_id, ()):
            listed.setdefault(self._targets[steer_id], []).append(steer_id)
        return listed

    def _move(self, steer_id: str, verdict: Verdict, at: float) -> None:
        target = self._targets[steer_id]
        record = self._records[target][steer_id]
        if record.state in SOURCES[verdict.state]:
            self._records[target][steer_id] = replace(
                record,
                state=verdict.state,
                updated_at=at,
                reason=record.reason if verdict.reason is None else verdict.reason,
                successor=record.successor if verdict.successor is None else verdict.successor,
                required=record.required if verdict.required is None else verdict.required,
            )
            self._touch(target, record.key_id)

    def _take(self, steer_id: str, effective: str | None) -> None:
        """Note for which response a submission was taken, if it was for another than it names."""
        records = self._records[self._targets[steer_id]]
        record = records[steer_id]
        if effective is not None:
            self._leave(record)
            self._taken.setdefault(effective, {})[steer_id] = None
            records[steer_id] = replace(record, effective=effective)

    def _leave(self, record: SteerRecord) -> None:
        """Forget for which response a submission was taken."""
        taken = self._taken.get(record.effective or "", {})
        taken.pop(record.id, None)
        if not taken:
            self._taken.pop(record.effective or "", None)

    async def _drop_orphans(self, target: str, ids: Sequence[str]) -> None:
        """Drop those of a response's submissions whose owners are gone (D16)."""
        records = [self._records[target][steer_id] for steer_id in ids]
        undecided = [record for record in records if record.state not in ENDS]
        if undecided:
            gone = await self._watch.gone({record.owner for record in undecided})
            orphans = [record.id for record in undecided if record.owner in gone]
            await self.settle(Verdict(target, orphans, SubmissionState.DROPPED, reason=OWNER_GONE))

    def _touch(self, target: str, key_id: str | None = None) -> None:
        self._written[target] = self._clock()
        self._written.move_to_end(target)
        if key_id is not None:
            self._by_key[key_id].move_to_end(target)

    def _count(self, record: SteerRecord) -> None:
        self._bytes += len(record.input)
        self._bytes_by_key[record.key_id] += len(record.input)
        own = self._by_key.setdefault(record.key_id, OrderedDict())
        own[record.target] = own.get(record.target, 0) + len(record.input)

    def _expire(self) -> None:
        """Forget the responses over their TTL, and some while there is too much input."""
        since = self._clock() - self._ttl
        while self._written and next(iter(self._written.values())) <= since:
            self._forget(next(iter(self._written)))
        while self._bytes > self._limit and len(self._records) > 1:
            greediest = max(self._bytes_by_key, key=self._bytes_by_key.__getitem__)
            self._forget(next(iter(self._by_key[greediest])))

    def _forget(self, target: str) -> None:
        del self._written[target]
        self._early.pop(target, None)
        for record in self._records.pop(target, {}).values():
            del self._targets[record.id]
            self._leave(record)
            self._bytes -= len(record.input)
            self._bytes_by_key[record.key_id] -= len(record.input)
            own = self._by_key[record.key_id]
            own.pop(target, None)
            if not own:
                del self._by_key[record.key_id], self._bytes_by_key[record.key_id]
