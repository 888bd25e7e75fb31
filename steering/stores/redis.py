"""The store of submissions in Redis or Valkey, for all processes and beyond restarts.

    <prefix>:{<tag>}:steers:<response id>   LIST: the ids of its submissions
    <prefix>:{<tag>}:steer:<submission id>  HASH: `target`, `fixed`, `state`, `at`, `reason`,
                                            `successor`, `required`, `effective`
    <prefix>:{<tag>}:taken:<response id>    SET: the ids of submissions that were taken for it in
                                            place of the response they name, and which `effective`
                                            says so of

The tag is the first half of the response's random digits (D14), so that all keys of a response are
in one slot of a cluster. `fixed` holds what never changes: a line of JSON, then the input.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import msgspec

from steering.errors import SenselessAnswer
from steering.ids import response_tag, steer_tag
from steering.redis.answers import integers, many, members, names, optional_strings, word
from steering.redis.guard import RedisGuard
from steering.states import ENDS, SubmissionState
from steering.stores.base import OWNER_GONE, RECORD_TTL, SOURCES, SteerRecord, Verdict
from steering.stores.redis_scripts import APPEND, DONE, SETTLE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from steering.redis.guard import RedisClient
    from steering.redis.lease import Lease
    from steering.redis.scripts import LuaScript

#: For each state those that lead to it, in the form that the scripts search.
_SOURCE_LISTS: Final = {
    state: f"|{'|'.join(sorted(sources))}|".encode() for state, sources in SOURCES.items()
}
#: The fields of a record that are read, `fixed` first.
_FIELDS: Final = ["fixed", "state", "at", "reason", "successor", "effective", "required"]


class _Head(msgspec.Struct, array_like=True):
    """What never changes of a record, but its input: the first line of `fixed`."""

    id: str
    key_id: str
    target: str
    owner: str
    created_at: float
    event_id: str | None = None


_heads: Final = msgspec.json.Decoder(_Head)


class RedisSteerStore:
    """A SteerStore on an engine. Each write is one script: one round trip, one atomic step.

    Args:
        client: The engine; its maker closes it.
        lease: The lease of this process, and its judgement on the owners of submissions.
        ttl: Seconds a record is kept after its last write.
        prefix: What all keys begin with.
        clock: Returns seconds since the epoch.
        guard: Makes the calls; one of its own if there is none.
    """

    def __init__(
        self,
        client: RedisClient,
        lease: Lease,
        *,
        ttl: float = RECORD_TTL,
        prefix: str = "multilane",
        clock: Callable[[], float] = time.time,
        guard: RedisGuard | None = None,
    ) -> None:
        self._client = client
        self._lease = lease
        self._ttl = b"%d" % max(1, int(ttl * 1000))
        self._prefix = prefix
        self._clock = clock
        self._guard = guard or RedisGuard(client)

    async def append(self, record: SteerRecord) -> None:
        """Write a submission down or move it on, in one round trip (see `SteerStore.append`).

        Raises:
            ValueError: By its id the submission is not one to that response.
        """
        tag = response_tag(record.target)
        if tag is None or steer_tag(record.id) != tag:
            raise ValueError("not a submission to that response, by its ids")
        if not self._lease.held:  # else a reader could take this owner for gone
            await self._lease.renew()
        keys = [self._list_key(tag, record.target), self._record_key(tag, record.id)]
        args = [
            *(self._ttl, record.id, record.target, _fixed(record), _SOURCE_LISTS[record.state]),
            *_changes(record, record.updated_at),
            *(() if record.effective is None else (b"effective", record.effective)),
        ]

        async def ask() -> None:
            await self._take(record.effective, [record.id])
            await self._write(APPEND, keys, args)

        await self._guard.run(ask, record.key_id)

    async def settle(self, verdict: Verdict) -> None:
        """Move submissions of one response on; ids of others are left out (see `SteerStore`)."""
        target, state = verdict.target, verdict.state
        tag = response_tag(target)
        own = [one for one in verdict.ids if tag is not None and steer_tag(one) == tag]
        if tag is None or not own:
            return
        keys = [self._list_key(tag, target), *(self._record_key(tag, steer_id) for steer_id in own)]
        args = [
            *(self._ttl, target, b"1" if state in ENDS else b"0", _SOURCE_LISTS[state]),
            verdict.effective or b"",
            *_changes(verdict, self._clock()),
        ]

        async def ask() -> None:
            await self._take(verdict.effective, own)
            await self._write(SETTLE, keys, args)

        await self._guard.run(ask)

    async def of_response(self, key_id: str, response_id: str) -> list[SteerRecord]:
        """Return the submissions of a response, in two round trips (see `of_response`)."""
        if (tag := response_tag(response_id)) is None:
            return []

        async def ask() -> list[SteerRecord]:
            pipeline = self._client.pipeline(transaction=False)
            pipeline.lrange(self._list_key(tag, response_id), 0, -1)
            pipeline.smembers(self._taken_key(tag, response_id))
            named, taken = many(await pipeline.execute(), 2)
            return await self._read([*names(named), *members(taken)])

        records = await self._guard.run(ask, key_id)
        if await self._drop_orphans(records):
            records = await self._guard.run(ask, key_id)
        of = (r for r in records if response_id in (r.target, r.effective))
        return sorted((r for r in of if r.key_id == key_id), key=lambda r: r.created_at)

    async def get(self, key_id: str, steer_id: str) -> SteerRecord | None:
        """Return one submission, in one round trip (see `SteerStore.get`)."""
        if steer_tag(steer_id) is None:
            return None
        records = await self._guard.run(lambda: self._read([steer_id]), key_id)
        if records and await self._drop_orphans(records):
            records = await self._guard.run(lambda: self._read([steer_id]), key_id)
        return next((r for r in records if r.key_id == key_id), None)

    async def aclose(self) -> None:
        """Do nothing: whoever made the client closes it."""

    async def _read(self, ids: Sequence[str]) -> list[SteerRecord]:
        keys = [self._record_key(tag, one) for one in ids if (tag := steer_tag(one)) is not None]
        if not keys:
            return []
        pipeline = self._client.pipeline(transaction=False)
        for key in keys:
            pipeline.hmget(key, _FIELDS)
        answers = many(await pipeline.execute(), len(keys))
        records = [optional_strings(answer, len(_FIELDS)) for answer in answers]
        return [_record_of(fixed, rest) for fixed, *rest in records if fixed is not None]

    async def _write(
        self, script: LuaScript, keys: Sequence[str], args: Sequence[str | bytes | int]
    ) -> None:
        """Run a script that writes, and make sure that the engine says so."""
        word(await script.run(self._client, keys, args), DONE)

    async def _take(self, response_id: str | None, ids: Sequence[str]) -> None:
        """List submissions under the response that they were taken for, in a slot of its own."""
        tag = None if response_id is None else response_tag(response_id)
        if tag is not None and response_id is not None:
            pipeline = self._client.pipeline(transaction=False)
            pipeline.sadd(self._taken_key(tag, response_id), *ids)
            pipeline.pexpire(self._taken_key(tag, response_id), int(self._ttl))
            integers(await pipeline.execute(), 2)

    async def _drop_orphans(self, records: Sequence[SteerRecord]) -> bool:
        """Drop the submissions whose owners are gone (D16); return whether there were any."""
        undecided = [record for record in records if record.state not in ENDS]
        gone = await self._lease.gone({r.owner for r in undecided}) if undecided else set()
        orphans: dict[str, list[str]] = {}
        for record in undecided:
            if record.owner in gone:
                orphans.setdefault(record.target, []).append(record.id)
        for target, ids in orphans.items():
            await self.settle(Verdict(target, ids, SubmissionState.DROPPED, reason=OWNER_GONE))
        return bool(orphans)

    def _list_key(self, tag: str, response_id: str) -> str:
        return f"{self._prefix}:{{{tag}}}:steers:{response_id}"

    def _taken_key(self, tag: str, response_id: str) -> str:
        return f"{self._prefix}:{{{tag}}}:taken:{response_id}"

    def _record_key(self, tag: str, steer_id: str) -> str:
        return f"{self._prefix}:{{{tag}}}:steer:{steer_id}"


def _changes(of: SteerRecord | Verdict, at: float) -> list[str | bytes]:
    """Return the changing fields of a record, each before its value."""
    changes: list[str | bytes] = [b"state", of.state.value, b"at", repr(at)]
    if of.reason is not None:
        changes += (b"reason", of.reason)
    if of.successor is not None:
        changes += (b"successor", of.successor)
    if of.required is not None:
        changes += (b"required", of.required)
    return changes


def _fixed(record: SteerRecord) -> bytes:
    """Return what never changes of a record as one value: a line of JSON, then the input."""
    head = [record.id, record.key_id, record.target, record.owner, record.created_at]
    keyed = [] if record.event_id is None else [record.event_id]
    return msgspec.json.encode([*head, *keyed]) + b"\n" + record.input


def _record_of(fixed: bytes, rest: Sequence[bytes | None]) -> SteerRecord:
    """Return the record that the fields of a hash hold.

    Raises:
        SenselessAnswer: They are no record.
    """
    state, at, reason, successor, effective, required = rest
    head, _, value = fixed.partition(b"\n")
    try:
        fixed_part = _heads.decode(head)
        return SteerRecord(
            id=fixed_part.id,
            key_id=fixed_part.key_id,
            target=fixed_part.target,
            input=value,
            owner=fixed_part.owner,
            state=SubmissionState((state or b"").decode()),
            created_at=fixed_part.created_at,
            updated_at=float(at or b""),
            reason=None if reason is None else reason.decode(),
            successor=None if successor is None else successor.decode(),
            effective=None if effective is None else effective.decode(),
            event_id=fixed_part.event_id,
            required=required,
        )
    except (ValueError, msgspec.DecodeError) as error:
        raise SenselessAnswer from error
