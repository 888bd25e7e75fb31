"""The same decisions as board and lineage, slow and obvious: copies, no counters, no links."""

from __future__ import annotations

from dataclasses import dataclass, field

from lanes.history.lineage import ENTRY_BYTES, NODE_BYTES

Lane = str | None


@dataclass
class Waiting:
    """A create that waits, and since when it has been the head of a lane that runs nothing."""

    number: int
    lane: Lane
    size: int
    ready_since: int | None = None


@dataclass
class LanesModel:
    """One list of all that waits, one dict of what runs."""

    max_active: int
    max_named: int
    max_queued: int
    max_queued_bytes: int
    running: dict[Lane, int] = field(default_factory=dict)
    waiting: list[Waiting] = field(default_factory=list)
    names: set[Lane] = field(default_factory=set)
    now: int = 0

    def submit(self, number: int, lane: Lane, size: int) -> str | list[int]:
        """The code it is refused with, or the numbers that start."""
        if lane is not None and len((self.names | {lane}) - {None}) > self.max_named:
            return "websocket_stream_limit_reached"
        behind = lane in self.running or any(other.lane == lane for other in self.waiting)
        if behind or len(self.running) >= self.max_active:
            if len(self.waiting) + 1 > self.max_queued:
                return "too_many_queued_responses"
            if sum(other.size for other in self.waiting) + size > self.max_queued_bytes:
                return "too_many_queued_responses"
        self.names.add(lane)
        self.waiting.append(Waiting(number, lane, size))
        return self._fill()

    def finish(self, lane: Lane) -> list[int]:
        """The numbers that start."""
        del self.running[lane]
        return self._fill()

    def clear(self, lane: Lane) -> list[int]:
        """The numbers that waited on this lane, and never start."""
        taken = [create for create in self.waiting if create.lane == lane]
        self.waiting = [create for create in self.waiting if create.lane != lane]
        return [create.number for create in taken]

    def close(self) -> list[int]:
        """The numbers that never start."""
        dropped = [create.number for create in self.waiting]
        self.waiting.clear()
        return dropped

    def _fill(self) -> list[int]:
        self.now += 1
        started = []
        seen = set(self.running)
        for create in self.waiting:
            if create.lane not in seen and create.ready_since is None:
                create.ready_since = self.now
            seen.add(create.lane)
        ready = [create for create in self.waiting if create.ready_since is not None]
        for create in sorted(ready, key=lambda create: create.ready_since or 0):
            if len(self.running) < self.max_active:
                self.waiting.remove(create)
                self.running[create.lane] = create.number
                started.append(create.number)
        return started


@dataclass(eq=False)
class Record:
    """One response, with a copy of all that came before it."""

    id: str
    lane: Lane
    ancestors: list[Record]
    own: list[bytes]
    calls: set[str]
    items: dict[str, bytes]

    @property
    def line(self) -> list[Record]:
        """The chain, oldest first."""
        return [*self.ancestors, self]

    @property
    def effective(self) -> list[bytes]:
        """Every item of the chain."""
        return [item for record in self.line for item in record.own]

    @property
    def size(self) -> int:
        """In bytes, as lineage counts them."""
        return NODE_BYTES + sum(ENTRY_BYTES + len(item) for item in self.own)


@dataclass
class CacheModel:
    """The ids one can continue from, least recently used first."""

    max_bytes: int
    cached: list[Record] = field(default_factory=list)
    heads: dict[Lane, str] = field(default_factory=dict)

    @property
    def held(self) -> set[Record]:
        """All that the cached ones build on, and they themselves."""
        return {held for record in self.cached for held in record.line}

    @property
    def bytes_held(self) -> int:
        """The sum over what is held."""
        return sum(record.size for record in self.held)

    def find(self, id: str) -> Record | None:
        """The record, which is now the last to go."""
        for record in self.cached:
            if record.id == id:
                self.cached.remove(record)
                self.cached.append(record)
                return record
        return None

    def keep(self, record: Record) -> None:
        """Add the latest of its lane, then forget until it fits."""
        self.cached.append(record)
        self.heads[record.lane] = record.id
        for old in list(self.cached):
            if self.bytes_held > self.max_bytes and old.id not in self.heads.values():
                self.cached.remove(old)

    def evict_failed(self, lane: Lane, id: str | None) -> None:
        """The same-lane rule."""
        for record in list(self.cached):
            if record.id == id and record.lane == lane:
                self.cached.remove(record)
                self.heads = {key: head for key, head in self.heads.items() if head != id}
