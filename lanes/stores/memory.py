"""The store of responses in memory, bounded by bytes, for as long as the process lives."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lanes.history.lineage import ENTRY_BYTES, NODE_BYTES
from lanes.stores.base import STORE_TTL, ChainLink, ChainTooLong, StoredChain

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.stores.base import StoredResponse

#: Deleted ids remembered, so that a late save does not bring them back.
_DELETED_IDS = 4096
#: Key id and response id.
_Key = tuple[str, str]


@dataclass(slots=True, eq=False)
class _KeptResponse:
    """One response and what holds it in memory."""

    key_id: str
    link: ChainLink
    #: None for a root, and for one whose chain is not here (`length` 0).
    parent: _KeptResponse | None = field(repr=False)
    #: Items of the chain up to here; 0 if it cannot be a parent.
    length: int
    #: Bytes of its own items.
    size: int
    #: One for its id, and one for each kept child.
    holders: int = 0


class MemoryResponseStore:
    """A ResponseStore in memory. Items stay while a kept response builds on them, and count once.

    Args:
        max_bytes: Bytes kept; beyond them the key that has most loses the ids that it did not use
            for longest, so that no key makes another forget (D29).
        store_ttl: Seconds a response is kept.
        clock: Returns seconds.
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
        # Key id -> response id -> the response and its object, the least recently used first.
        self._kept: dict[str, OrderedDict[str, tuple[_KeptResponse, bytes]]] = {}
        # Key id -> bytes; no zeros.
        self._bytes_by_key: Counter[str] = Counter()
        # When each came, the oldest first.
        self._saved_at: OrderedDict[_Key, float] = OrderedDict()
        # The oldest first.
        self._deleted: OrderedDict[_Key, None] = OrderedDict()
        self._bytes = 0

    @property
    def bytes_held(self) -> int:
        """The bytes that the responses occupy, each item once."""
        return self._bytes

    async def save(self, response: StoredResponse) -> None:
        """Save a response (see `ResponseStore.save`)."""
        self._expire()
        key = (response.key_id, response.id)
        if self._find(key) is not None or key in self._deleted:
            return
        parent = None
        length = response.length
        if response.parent_id is not None:
            parent = self._parent(response.key_id, response.parent_id)
            length = 0 if parent is None else parent.length + length
        entries = response.input_items + response.output_items
        kept = _KeptResponse(
            response.key_id,
            ChainLink(response.id, response.input_items, response.output_items),
            parent,
            length,
            NODE_BYTES + sum(ENTRY_BYTES + len(entry.data) for entry in entries),
        )
        self._hold(kept)
        self._count(response.key_id, len(response.body))
        self._kept.setdefault(response.key_id, OrderedDict())[response.id] = kept, response.body
        self._saved_at[key] = self._clock()
        while self._bytes > self._max_bytes:
            greediest = max(self._bytes_by_key, key=self._bytes_by_key.__getitem__)
            self._forget((greediest, next(iter(self._kept[greediest]))))

    async def load(self, key_id: str, response_id: str, max_items: int) -> StoredChain | None:
        """Return a response and all it builds on (see `ResponseStore.load`).

        Args:
            key_id: The API key that asks.
            response_id: The last response of the chain.
            max_items: Items that the chain may hold.
        """
        self._expire()
        kept = self._parent(key_id, response_id)
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
        """Return a response object (see `ResponseStore.get`)."""
        self._expire()
        entry = self._find((key_id, response_id))
        return None if entry is None else entry[1]

    async def delete(self, key_id: str, response_id: str) -> bool:
        """Forget a response (see `ResponseStore.delete`)."""
        self._expire()
        key = (key_id, response_id)
        if self._find(key) is None:
            return False
        self._forget(key)
        self._deleted[key] = None
        if len(self._deleted) > _DELETED_IDS:
            self._deleted.popitem(last=False)
        return True

    async def aclose(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self._saved_at.clear()
        self._bytes_by_key.clear()
        self._bytes = 0

    def _find(self, key: _Key) -> tuple[_KeptResponse, bytes] | None:
        """Return a response and its object, and mark it as just used."""
        key_id, response_id = key
        mine = self._kept.get(key_id)
        if mine is None or response_id not in mine:
            return None
        mine.move_to_end(response_id)
        return mine[response_id]

    def _parent(self, key_id: str, response_id: str) -> _KeptResponse | None:
        """Return a response that can be a parent."""
        entry = self._find((key_id, response_id))
        return entry[0] if entry is not None and entry[0].length else None

    def _expire(self) -> None:
        oldest = self._clock() - self._store_ttl
        while self._saved_at:
            key, saved_at = next(iter(self._saved_at.items()))
            if saved_at > oldest:
                return
            self._forget(key)

    def _forget(self, key: _Key) -> None:
        key_id, response_id = key
        kept, body = self._kept[key_id].pop(response_id)
        if not self._kept[key_id]:
            del self._kept[key_id]
        del self._saved_at[key]
        self._count(key_id, -len(body))
        self._release(kept)

    def _hold(self, kept: _KeptResponse) -> None:
        """Count a new response, which holds its parent."""
        kept.holders += 1
        self._count(kept.key_id, kept.size)
        if kept.parent is not None:
            kept.parent.holders += 1

    def _release(self, kept: _KeptResponse | None) -> None:
        """Count one holder less; a response without any releases its parent in turn."""
        while kept is not None:
            kept.holders -= 1
            if kept.holders:
                return
            self._count(kept.key_id, -kept.size)
            kept = kept.parent

    def _count(self, key_id: str, added: int) -> None:
        """Count bytes of a key that came, or that went if negative."""
        self._bytes += added
        self._bytes_by_key[key_id] += added
        if not self._bytes_by_key[key_id]:
            del self._bytes_by_key[key_id]
