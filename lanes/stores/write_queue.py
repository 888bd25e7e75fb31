"""MACHINE: the responses on their way to a store, bounded by key and in all, in turns (D29).

A parent is ahead of its children, and keys take turns. Over a bound, the key that has most gives:
its latest response is lost, never one of a key that has less.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

import anyio

from lanes.history.lineage import ENTRY_BYTES, NODE_BYTES
from steering.fair_queue import FairQueue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lanes.stores.base import StoredResponse

#: Why a response is lost, in the words that its client reads.
TOO_MANY: Final = "too many wait for the store"
TOO_MANY_OF_KEY: Final = "too many of its key wait for the store"


class WriteState(Enum):
    """Where a write is."""

    HELD = auto()  # behind its parent
    READY = auto()
    RUNNING = auto()  # also between two tries
    OVER = auto()


@dataclass(frozen=True, slots=True)
class WriteBounds:
    """How much may wait for a store.

    Attributes:
        bytes: Bytes in all.
        bytes_per_key: Bytes of one key.
        count: Responses in all.
        count_per_key: Responses of one key.
        at_once: Writes at a time.
        at_once_per_key: Writes at a time of one key, those between two tries included.
    """

    bytes: int = 64 * 1024 * 1024
    bytes_per_key: int = 32 * 1024 * 1024
    count: int = 16_384
    count_per_key: int = 8_192
    at_once: int = 8
    at_once_per_key: int = 4


@dataclass(slots=True, eq=False)
class Write:
    """A response on its way to the store."""

    response: StoredResponse
    #: In bytes, roughly.
    size: int
    state: WriteState = WriteState.READY
    tries: int = 0
    #: What waits for this one.
    children: list[Write] = field(default_factory=list)
    done: anyio.Event = field(default_factory=anyio.Event)


@dataclass(slots=True)
class _KeyShare:
    """What one key has in the queue."""

    bytes: int = 0
    #: By response id, in the order in which they came.
    writes: OrderedDict[str, Write] = field(default_factory=OrderedDict)


class WriteQueue:
    """The writes before one store, each until `end`."""

    def __init__(self, bounds: WriteBounds) -> None:
        self._bounds = bounds
        self._turns: FairQueue[Write] = FairQueue(bounds.at_once, bounds.at_once_per_key)
        # Key id -> its share; no empty ones.
        self._shares: dict[str, _KeyShare] = {}
        self.bytes = 0
        self.count = 0

    def find(self, key_id: str, response_id: str) -> Write | None:
        """Return the write of a response that is on its way."""
        share = self._shares.get(key_id)
        return None if share is None else share.writes.get(response_id)

    def add(self, response: StoredResponse) -> list[tuple[Write, str]]:
        """Queue a response; return the writes that are lost for it, with the reasons."""
        if self.find(response.key_id, response.id) is not None:
            return []
        entries = response.input_items + response.output_items
        size = len(response.body) + sum(ENTRY_BYTES + len(entry.data) for entry in entries)
        write = Write(response, NODE_BYTES + size)
        share = self._shares.get(response.key_id) or _KeyShare()
        bounds = self._bounds
        # The first response of a key always fits.
        full = share.bytes + write.size > bounds.bytes_per_key
        if share.writes and (full or len(share.writes) >= bounds.count_per_key):
            return [(write, TOO_MANY_OF_KEY)]
        lost = []
        while (victim := self._over_bounds(share, write)) is not None:
            lost.append((victim, TOO_MANY))
            if victim is write:
                return lost
            self.end(victim)
        self._enter(write)
        return lost

    def take_ready(self) -> Iterator[Write]:
        """Take all that may be written now."""
        for _, write in self._turns.take_ready():
            write.state = WriteState.RUNNING
            yield write

    def rest(self) -> None:
        """Let others have the turn of a write that is tried again later."""
        self._turns.rest()

    def retry(self, write: Write) -> None:
        """Let a write that rested wait for a turn again, the next one of its key."""
        self._turns.put_back(write.response.key_id, write)
        write.state = WriteState.READY

    def end(self, write: Write) -> None:
        """Take a write out, written or lost; what waited for it is ready now."""
        key_id = write.response.key_id
        if write.state is WriteState.RUNNING:
            self._turns.done(key_id)
        else:
            self._turns.remove(key_id, write)
        write.state = WriteState.OVER
        for child in write.children:
            if child.state is WriteState.HELD:
                child.state = WriteState.READY
                self._turns.put(key_id, child)
        share = self._shares[key_id]
        del share.writes[write.response.id]
        share.bytes -= write.size
        if not share.writes:
            del self._shares[key_id]
        self.bytes -= write.size
        self.count -= 1
        write.done.set()

    def clear(self) -> list[Write]:
        """Take all writes out; return them."""
        writes = [write for share in self._shares.values() for write in share.writes.values()]
        self._turns.clear()
        self._shares.clear()
        self.bytes = self.count = 0
        for write in writes:
            write.state = WriteState.OVER
            write.done.set()
        return writes

    def _enter(self, write: Write) -> None:
        response = write.response
        share = self._shares.setdefault(response.key_id, _KeyShare())
        parent = response.parent_id and share.writes.get(response.parent_id)
        if parent:
            write.state = WriteState.HELD
            parent.children.append(write)
        else:
            self._turns.put(response.key_id, write)
        share.writes[response.id] = write
        share.bytes += write.size
        self.bytes += write.size
        self.count += 1

    def _over_bounds(self, share: _KeyShare, write: Write) -> Write | None:
        """Return what has to go so that a write of this share fits; None if it does."""
        if not self.count:  # the first response always fits
            return None
        if self.bytes + write.size > self._bounds.bytes:
            most = max(self._shares.values(), key=lambda other: other.bytes)
            less = most.bytes <= share.bytes + write.size
        elif self.count >= self._bounds.count:
            most = max(self._shares.values(), key=lambda other: len(other.writes))
            less = len(most.writes) <= len(share.writes) + 1
        else:
            return None
        if less:
            return write
        latest = (w for w in reversed(most.writes.values()) if w.state is not WriteState.RUNNING)
        return next(latest, write)
