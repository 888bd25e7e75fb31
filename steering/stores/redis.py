"""Submissions in Redis or Valkey: one hash each, one list per response, all under its hash tag."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from steering.ids import response_tag, steer_tag
from steering.redis.guard import RedisGuard
from steering.redis.scripts import Script
from steering.states import ENDS, SubmissionState
from steering.stores.base import OWNER_GONE, SOURCES, TTL, SteerRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from steering.redis.guard import Client
    from steering.redis.lease import Lease

#: KEYS: the list, the record. ARGV: TTL in ms, id, target, what never changes, the states that it
#: may come from, then the fields that change and their values. A record that is only a verdict so
#: far keeps that.
_APPEND: Final = """
local was = redis.call('HMGET', KEYS[2], 'fixed', 'state')
if not was[1] then
  local to = was[2] and 0 or #ARGV
  redis.call('HSET', KEYS[2], 'target', ARGV[3], 'fixed', ARGV[4], unpack(ARGV, 6, to))
  redis.call('RPUSH', KEYS[1], ARGV[2])
elseif string.find(ARGV[5], '|' .. was[2] .. '|', 1, true) then
  redis.call('HSET', KEYS[2], unpack(ARGV, 6))
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[1])
"""

#: KEYS: the list, the records. ARGV: TTL in ms, target, 1 if the new state is an end, the states
#: that they may come from, then the fields that change and their values.
_SETTLE: Final = """
for i = 2, #KEYS do
  local was = redis.call('HMGET', KEYS[i], 'target', 'state')
  local early = not was[2] and ARGV[3] == '1'
  if early then redis.call('HSET', KEYS[i], 'target', ARGV[2]) end
  if early or was[1] == ARGV[2] and string.find(ARGV[4], '|' .. was[2] .. '|', 1, true) then
    redis.call('HSET', KEYS[i], unpack(ARGV, 5))
    redis.call('PEXPIRE', KEYS[i], ARGV[1])
    redis.call('PEXPIRE', KEYS[1], ARGV[1])
  end
end
"""

#: The states that a record may come from, as the scripts look them up.
_SOURCES: Final = {
    state: f"|{'|'.join(sorted(sources))}|".encode() for state, sources in SOURCES.items()
}


class RedisSteerStore:
    """A SteerStore. Its writes are scripts, each of them one round trip and one atomic step."""

    def __init__(
        self,
        client: Client,
        lease: Lease,
        *,
        ttl: float = TTL,
        prefix: str = "multilane",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._lease = lease
        self._ttl = b"%d" % max(1, int(ttl * 1000))
        self._prefix = prefix
        self._clock = clock
        self._guard = RedisGuard(client)
        self._append = Script(client, _APPEND)
        self._settle = Script(client, _SETTLE)

    async def append(self, record: SteerRecord) -> None:
        """Write a submission down, or move it on. One round trip."""
        tag = response_tag(record.target)
        if tag is None or steer_tag(record.id) != tag:
            raise ValueError("not a submission to that response, by its ids")
        if not self._lease.held:  # nobody may take it for the record of a process that is gone
            await self._lease.refresh()
        keys = [self._list(tag, record.target), self._record(tag, record.id)]
        args = [
            *(self._ttl, record.id, record.target, _fixed(record), _SOURCES[record.state]),
            *_changes(record.state, record.updated_at, record.reason, record.successor),
        ]
        await self._guard.run(lambda: self._append(keys, args))

    async def settle(
        self,
        target: str,
        ids: Sequence[str],
        state: SubmissionState,
        *,
        reason: str | None = None,
        successor: str | None = None,
    ) -> None:
        """Move submissions of one response on. One round trip."""
        tag = response_tag(target)
        known = [steer_id for steer_id in ids if tag is not None and steer_tag(steer_id) == tag]
        if tag is None or not known:
            return
        keys = [self._list(tag, target), *(self._record(tag, steer_id) for steer_id in known)]
        args = [
            *(self._ttl, target, b"1" if state in ENDS else b"0", _SOURCES[state]),
            *_changes(state, self._clock(), reason, successor),
        ]
        await self._guard.run(lambda: self._settle(keys, args))

    async def of_response(self, key_id: str, response_id: str) -> list[SteerRecord]:
        """The submissions of a response by `created_at`. Two round trips."""
        if (tag := response_tag(response_id)) is None:
            return []

        async def ask() -> list[SteerRecord]:
            ids: list[Any] = await self._client.lrange(self._list(tag, response_id), 0, -1)
            return await self._read(tag, [name.decode() for name in ids])

        records = await self._guard.run(ask)
        if await self._drop(response_id, records):
            records = await self._guard.run(ask)
        mine = (r for r in records if r.key_id == key_id and r.target == response_id)
        return sorted(mine, key=lambda r: r.created_at)

    async def get(self, key_id: str, steer_id: str) -> SteerRecord | None:
        """One submission. One round trip."""
        if (tag := steer_tag(steer_id)) is None:
            return None
        records = await self._guard.run(lambda: self._read(tag, [steer_id]))
        if records and await self._drop(records[0].target, records):
            records = await self._guard.run(lambda: self._read(tag, [steer_id]))
        return next((r for r in records if r.key_id == key_id), None)

    async def aclose(self) -> None:
        """Nothing to let go of: the client is its maker's."""

    async def _read(self, tag: str, ids: Sequence[str]) -> list[SteerRecord]:
        if not ids:
            return []
        pipeline = self._client.pipeline(transaction=False)
        for steer_id in ids:
            pipeline.hgetall(self._record(tag, steer_id))
        return [_told(fields) for fields in await pipeline.execute() if b"fixed" in fields]

    async def _drop(self, target: str, records: Sequence[SteerRecord]) -> bool:
        """Drop what owners left behind that are gone; whether there was any."""
        owners = {record.owner for record in records if record.state not in ENDS}
        gone = await self._lease.gone(owners) if owners else set()
        ids = [r.id for r in records if r.state not in ENDS and r.owner in gone]
        if ids:
            await self.settle(target, ids, SubmissionState.DROPPED, reason=OWNER_GONE)
        return bool(ids)

    def _list(self, tag: str, response_id: str) -> str:
        return f"{self._prefix}:{{{tag}}}:steers:{response_id}"

    def _record(self, tag: str, steer_id: str) -> str:
        return f"{self._prefix}:{{{tag}}}:steer:{steer_id}"


def _changes(
    state: SubmissionState, at: float, reason: str | None, successor: str | None
) -> list[str | bytes]:
    """The fields that change, each before its value."""
    changes: list[str | bytes] = [b"state", state.value, b"at", repr(at)]
    if reason is not None:
        changes += (b"reason", reason)
    if successor is not None:
        changes += (b"successor", successor)
    return changes


def _fixed(record: SteerRecord) -> bytes:
    """What never changes of a record, in one value: a line of JSON, then the input."""
    head = (record.id, record.key_id, record.target, record.owner, record.created_at)
    return msgspec.json.encode(head) + b"\n" + record.input


def _told(fields: dict[bytes, bytes]) -> SteerRecord:
    head, _, value = fields[b"fixed"].partition(b"\n")
    steer_id, key_id, target, owner, created_at = msgspec.json.decode(head)
    return SteerRecord(
        id=steer_id,
        key_id=key_id,
        target=target,
        input=value,
        owner=owner,
        state=SubmissionState(fields[b"state"].decode()),
        created_at=float(created_at),
        updated_at=float(fields[b"at"]),
        reason=fields[b"reason"].decode() if b"reason" in fields else None,
        successor=fields[b"successor"].decode() if b"successor" in fields else None,
    )
