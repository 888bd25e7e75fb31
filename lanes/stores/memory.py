"""Stored responses of one process, for as long as it lives; bounded by bytes."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lanes.history.lineage import ENTRY_BYTES, NODE_BYTES
from lanes.stores.base import STORE_TTL, ChainLink, ChainTooLong, StoredChain

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.stores.base import StoredResponse

#: Deleted ids remembered, so that a save that is late does not bring them back.
_GONE = 4096
#: Whose response, and which.
_Key = tuple[str, str]


@dataclass(slots=True, eq=False)
class _Kept:
    """One response. `holders`: one for its id, one for each kept child."""

    link: ChainLink
    #: None for a root, and for one whose chain is not here (`length` 0).
    parent: _Kept | None = field(repr=False)
    #: Items up to here, in all. 0: not usable as a parent.
    length: int
    size: int
    holders: int = 0


class MemoryResponseStore:
    """A ResponseStore in memory. Over `max_bytes` the ids unused for longest are forgotten.

    `store_ttl` is in seconds, of `clock`'s. Like anywhere, items stay while a kept response builds
    on them, and count once.
    """

    def __init__(
        self,
        max_bytes: int = 256 * 1024 * 1024,
        *,
        store_ttl: float = STORE_TTL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_bytes = max_bytes
        self._store_ttl = store_ttl
        self._clock = clock
        # Least recently used first.
        self._kept: OrderedDict[_Key, tuple[_Kept, bytes]] = OrderedDict()
        # When each came, oldest first.
        self._saved_at: OrderedDict[_Key, float] = OrderedDict()
        # Oldest first.
        self._gone: OrderedDict[_Key, None] = OrderedDict()
        self._bytes = 0

    @property
    def bytes_held(self) -> int:
        """What is kept occupies, each item once."""
        return self._bytes

    async def save(self, response: StoredResponse) -> None:
        """See ResponseStore."""
        self._expire()
        key = (response.key_id, response.id)
        if key in self._kept or key in self._gone:
            return
        parent = None
        length = response.length
        if response.parent_id is not None:
            parent = self._usable(response.key_id, response.parent_id)
            length = 0 if parent is None else parent.length + length
        entries = response.input_items + response.output_items
        kept = _Kept(
            ChainLink(response.id, response.input_items, response.output_items),
            parent,
            length,
            NODE_BYTES + sum(ENTRY_BYTES + len(entry.data) for entry in entries),
        )
        self._hold(kept)
        self._bytes += len(response.body)
        self._kept[key] = kept, response.body
        self._saved_at[key] = self._clock()
        while self._bytes > self._max_bytes:
            self._forget(next(iter(self._kept)))

    async def load(self, key_id: str, response_id: str, max_items: int) -> StoredChain | None:
        """See ResponseStore."""
        self._expire()
        kept = self._usable(key_id, response_id)
        if kept is None:
            return None
        if kept.length > max_items:
            raise ChainTooLong(response_id, kept.length, max_items)
        links = []
        while kept is not None:
            links.append(kept.link)
            kept = kept.parent
        return StoredChain(tuple(reversed(links)))

    async def get(self, key_id: str, response_id: str) -> bytes | None:
        """See ResponseStore."""
        self._expire()
        found = self._find((key_id, response_id))
        return None if found is None else found[1]

    async def delete(self, key_id: str, response_id: str) -> bool:
        """See ResponseStore."""
        self._expire()
        key = (key_id, response_id)
        if key not in self._kept:
            return False
        self._forget(key)
        self._gone[key] = None
        if len(self._gone) > _GONE:
            self._gone.popitem(last=False)
        return True

    async def aclose(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self._saved_at.clear()
        self._bytes = 0

    def _find(self, key: _Key) -> tuple[_Kept, bytes] | None:
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def _usable(self, key_id: str, response_id: str) -> _Kept | None:
        found = self._find((key_id, response_id))
        return found[0] if found is not None and found[0].length else None

    def _expire(self) -> None:
        born = self._clock() - self._store_ttl
        while self._saved_at:
            key, saved_at = next(iter(self._saved_at.items()))
            if saved_at > born:
                return
            self._forget(key)

    def _forget(self, key: _Key) -> None:
        kept, body = self._kept.pop(key)
        del self._saved_at[key]
        self._bytes -= len(body)
        self._release(kept)

    def _hold(self, kept: _Kept) -> None:
        """Count a new response, which holds its parent."""
        kept.holders += 1
        self._bytes += kept.size
        if kept.parent is not None:
            kept.parent.holders += 1

    def _release(self, kept: _Kept | None) -> None:
        """Count one holder less; one that has none left lets go of its parent in turn."""
        while kept is not None:
            kept.holders -= 1
            if kept.holders:
                return
            self._bytes -= kept.size
            kept = kept.parent
