"""The contract of every store of conversations, and what a store holds (protocol.md 8)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from lanes.errors import ClientFault
from lanes.history.lineage import ENTRY_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.long_strings import LongStrings

#: Conversations of one API key.
MAX_CONVERSATIONS: Final = 10_000
#: Bytes of the items of one conversation, with ENTRY_BYTES for each.
MAX_CONVERSATION_BYTES: Final = 16 * 1024 * 1024
#: An id that this gateway made; any other form names a conversation of a backend's (D35).
_OURS = re.compile(r"conv_[0-9a-f]{32}")


class ConversationKey(NamedTuple):
    """What tells a conversation from all others.

    Attributes:
        key_id: The API key whose it is.
        id: Its id.
    """

    key_id: str
    id: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a conversation has beside its items.

    Attributes:
        id: Its id.
        created_at: Seconds since the epoch.
        metadata: The client's pairs.
    """

    id: str
    created_at: int
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ConversationItem:
    """One item of a conversation.

    Attributes:
        id: Its id.
        data: The JSON that is replayed; empty if the item is shown, but never replayed.
        calls: The calls it owns, which outputs may answer.
        shown: The JSON that its client reads, if `data` is not what that is made of.
    """

    id: str
    data: bytes
    calls: tuple[tuple[str, str], ...] = ()
    shown: bytes = b""

    @property
    def size(self) -> int:
        """Bytes, roughly, that it occupies."""
        return ENTRY_BYTES + len(self.data) + len(self.shown)

    def cut(self, strings: LongStrings) -> ConversationItem:
        """Return the item without its long strings (see `LongStrings.cut`)."""
        return replace(self, data=strings.cut(self.data), shown=strings.cut(self.shown))


@dataclass(frozen=True, slots=True)
class ItemBounds:
    """How much a conversation may hold.

    Attributes:
        items: Items.
        bytes: Bytes of all items.
    """

    items: int
    bytes: int = MAX_CONVERSATION_BYTES


@dataclass(frozen=True, slots=True)
class Page:
    """Which items of a conversation are wanted.

    Attributes:
        limit: How many at most.
        after: The item that they follow, in the order that is asked for; None for the first ones.
        descending: Whether the latest comes first.
    """

    limit: int = 20
    after: str | None = None
    descending: bool = True

    @property
    def one_more(self) -> Page:
        """The same with one item more, which tells whether there are further ones."""
        return replace(self, limit=self.limit + 1)


class ConversationFull(ClientFault):
    """A conversation has no room for what is to be added."""

    def __init__(self, bounds: ItemBounds, param: str = "items") -> None:
        super().__init__(
            f"A conversation holds {bounds.items} items and {bounds.bytes} bytes at most;"
            " delete items or begin another one.",
            code="conversation_too_large",
            param=param,
        )


class TooManyConversations(ClientFault):
    """A key has as many conversations as it may have."""

    def __init__(self, most: int) -> None:
        message = f"A key has {most} conversations at most; delete those that are over."
        super().__init__(message, code="too_many_conversations", status=429)


class ItemNotFound(ClientFault):
    """An item is not in the conversation."""

    def __init__(self, item_id: str, param: str | None = None) -> None:
        message = f"Item with id '{item_id[:256]}' not found in this conversation."
        super().__init__(message, code="item_not_found", status=404, param=param)


@dataclass(frozen=True, slots=True)
class Addition:
    """Items for the end of a conversation.

    Attributes:
        items: The items.
        token: Names this addition, in 16 hex digits, so that a second try adds nothing.
        bounds: How much the conversation may hold then; None if there is no bound.
    """

    items: Sequence[ConversationItem]
    token: str
    bounds: ItemBounds | None = None


class ConversationStore(Protocol):
    """Keeps conversations by API key: another key's id looks exactly like an unknown one.

    What is added is added at once and in order: no reader sees a part of it, and no other writer
    gets in between. Each change keeps the conversation for another `store_ttl`. Every method raises
    StoreUnavailable, within two seconds, when the store is away.
    """

    async def create(
        self, key_id: str, conversation: Conversation, items: Sequence[ConversationItem]
    ) -> None:
        """Keep a new conversation. Idempotent by its id.

        Args:
            key_id: The API key whose it is.
            conversation: The conversation.
            items: Its first items.

        Raises:
            TooManyConversations: The key has as many as it may have.
        """

    async def get(self, key: ConversationKey) -> Conversation | None:
        """Return a conversation; None if the key has no such one."""

    async def update(self, key: ConversationKey, metadata: dict[str, Any]) -> Conversation | None:
        """Replace the metadata; return the conversation, or None if the key has no such one."""

    async def delete(self, key: ConversationKey) -> bool:
        """Forget a conversation and its items; return False if the key has no such one."""

    async def append(self, key: ConversationKey, addition: Addition) -> bool:
        """Add items at the end, all or none; return False if the key has no such conversation.

        Raises:
            ConversationFull: It would hold more than `addition.bounds`; nothing was added.
        """

    async def items(self, key: ConversationKey) -> list[ConversationItem] | None:
        """Return all items in order; None if the key has no such conversation."""

    async def page(self, key: ConversationKey, page: Page) -> list[ConversationItem] | None:
        """Return some items; None if the key has no such conversation.

        Raises:
            ItemNotFound: The item that they should follow is not there.
        """

    async def item(self, key: ConversationKey, item_id: str) -> ConversationItem | None:
        """Return an item; None if it is not in a conversation of the key's."""

    async def remove(self, key: ConversationKey, item_id: str) -> bool:
        """Take an item out; return False if it is not in a conversation of the key's."""


def is_ours(conversation_id: str) -> bool:
    """Return whether this gateway may have made a conversation's id."""
    return _OURS.fullmatch(conversation_id) is not None
