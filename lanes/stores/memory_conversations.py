"""The store of conversations in memory, bounded by bytes, for as long as the process lives."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lanes.history.lineage import NODE_BYTES
from lanes.stores.base import STORE_TTL
from lanes.stores.conversations import (
    MAX_CONVERSATIONS,
    Addition,
    ConversationFull,
    ConversationKey,
    ItemNotFound,
    TooManyConversations,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.stores.conversations import Conversation, ConversationItem, Page

#: Additions remembered for each conversation, so that a second try adds nothing.
_TOKENS = 64


@dataclass(slots=True, eq=False)
class _Kept:
    """One conversation."""

    conversation: Conversation
    items: list[ConversationItem]
    #: When it ends.
    end: float
    bytes: int = NODE_BYTES
    tokens: deque[str] = field(default_factory=lambda: deque(maxlen=_TOKENS))

    def place(self, item_id: str) -> int | None:
        """Return where an item is."""
        return next((n for n, item in enumerate(self.items) if item.id == item_id), None)


class MemoryConversationStore:
    """A ConversationStore in memory.

    Args:
        max_bytes: Bytes kept; beyond them the key that has most loses the conversations that it did
            not use for longest, so that no key makes another forget (D29).
        max_conversations: Conversations of one key.
        store_ttl: Seconds that a conversation is kept after each change.
        clock: Returns seconds.
    """

    def __init__(
        self,
        max_bytes: int = 256 * 1024 * 1024,
        *,
        max_conversations: int = MAX_CONVERSATIONS,
        store_ttl: float = STORE_TTL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_bytes = max_bytes
        self._max_conversations = max_conversations
        self._store_ttl = store_ttl
        self._clock = clock
        # Key id -> conversation id -> the conversation, the least recently used first.
        self._kept: dict[str, OrderedDict[str, _Kept]] = {}
        # The least recently changed first.
        self._changed: OrderedDict[ConversationKey, None] = OrderedDict()
        # Key id -> bytes; no zeros.
        self._bytes_by_key: Counter[str] = Counter()
        self._bytes = 0

    @property
    def bytes_held(self) -> int:
        """The bytes, roughly, that the conversations occupy."""
        return self._bytes

    async def create(
        self, key_id: str, conversation: Conversation, items: Sequence[ConversationItem]
    ) -> None:
        """Keep a new conversation (see `ConversationStore.create`)."""
        if self._find(ConversationKey(key_id, conversation.id)) is not None:
            return
        mine = self._kept.get(key_id, ())
        if len(mine) >= self._max_conversations:
            raise TooManyConversations(self._max_conversations)
        kept = _Kept(conversation, [], 0)
        self._kept.setdefault(key_id, OrderedDict())[conversation.id] = kept
        self._count(key_id, kept.bytes)
        self._add(key_id, kept, items)

    async def get(self, key: ConversationKey) -> Conversation | None:
        """Return a conversation (see `ConversationStore.get`)."""
        kept = self._find(key)
        return None if kept is None else kept.conversation

    async def update(self, key: ConversationKey, metadata: dict[str, Any]) -> Conversation | None:
        """Replace the metadata (see `ConversationStore.update`)."""
        kept = self._find(key)
        if kept is None:
            return None
        kept.conversation = replace(kept.conversation, metadata=metadata)
        self._add(key.key_id, kept, ())
        return kept.conversation

    async def delete(self, key: ConversationKey) -> bool:
        """Forget a conversation (see `ConversationStore.delete`)."""
        if self._find(key) is None:
            return False
        self._forget(key)
        return True

    async def append(self, key: ConversationKey, addition: Addition) -> bool:
        """Add items at the end (see `ConversationStore.append`)."""
        items, token, bounds = addition.items, addition.token, addition.bounds
        kept = self._find(key)
        if kept is None:
            return False
        if token in kept.tokens:
            return True
        if bounds is not None:
            size = kept.bytes - NODE_BYTES + sum(item.size for item in items)
            if len(kept.items) + len(items) > bounds.items or size > bounds.bytes:
                raise ConversationFull(bounds)
        kept.tokens.append(token)
        self._add(key.key_id, kept, items)
        return True

    async def items(self, key: ConversationKey) -> list[ConversationItem] | None:
        """Return all items in order (see `ConversationStore.items`)."""
        kept = self._find(key)
        return None if kept is None else list(kept.items)

    async def page(self, key: ConversationKey, page: Page) -> list[ConversationItem] | None:
        """Return some items (see `ConversationStore.page`)."""
        kept = self._find(key)
        if kept is None:
            return None
        items, first = kept.items, 0
        if page.descending:
            items = items[::-1]
        if page.after is not None:
            place = kept.place(page.after)
            if place is None:
                raise ItemNotFound(page.after, "after")
            first = (len(items) - 1 - place if page.descending else place) + 1
        return items[first : first + page.limit]

    async def item(self, key: ConversationKey, item_id: str) -> ConversationItem | None:
        """Return an item (see `ConversationStore.item`)."""
        kept = self._find(key)
        place = None if kept is None else kept.place(item_id)
        return None if kept is None or place is None else kept.items[place]

    async def remove(self, key: ConversationKey, item_id: str) -> bool:
        """Take an item out (see `ConversationStore.remove`)."""
        kept = self._find(key)
        place = None if kept is None else kept.place(item_id)
        if kept is None or place is None:
            return False
        size = kept.items.pop(place).size
        kept.bytes -= size
        self._count(key.key_id, -size)
        self._add(key.key_id, kept, ())
        return True

    def _find(self, key: ConversationKey) -> _Kept | None:
        """Return a conversation, and mark it as just used."""
        while self._changed:
            oldest = next(iter(self._changed))
            if self._kept[oldest.key_id][oldest.id].end > self._clock():
                break
            self._forget(oldest)
        mine = self._kept.get(key.key_id)
        if mine is None or key.id not in mine:
            return None
        mine.move_to_end(key.id)
        return mine[key.id]

    def _add(self, key_id: str, kept: _Kept, items: Sequence[ConversationItem]) -> None:
        """Add items, and keep the conversation longer."""
        size = sum(item.size for item in items)
        kept.items += items
        kept.bytes += size
        kept.end = self._clock() + self._store_ttl
        place = ConversationKey(key_id, kept.conversation.id)
        self._changed[place] = None
        self._changed.move_to_end(place)
        self._count(key_id, size)
        while self._bytes > self._max_bytes:
            greediest = max(self._bytes_by_key, key=self._bytes_by_key.__getitem__)
            self._forget(ConversationKey(greediest, next(iter(self._kept[greediest]))))

    def _forget(self, key: ConversationKey) -> None:
        kept = self._kept[key.key_id].pop(key.id)
        if not self._kept[key.key_id]:
            del self._kept[key.key_id]
        del self._changed[key]
        self._count(key.key_id, -kept.bytes)

    def _count(self, key_id: str, added: int) -> None:
        """Count bytes of a key that came, or that went if negative."""
        self._bytes += added
        self._bytes_by_key[key_id] += added
        if not self._bytes_by_key[key_id]:
            del self._bytes_by_key[key_id]
