"""The contract of every store of responses, and what a store holds (protocol.md 3)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Protocol

from lanes.errors import ClientFault
from lanes.history.entries import Entry
from lanes.history.lineage import Node
from steering.errors import StoreUnavailable

#: Seconds a response is kept: 30 days.
STORE_TTL: Final = 30 * 24 * 3600
#: Items a chain may hold.
MAX_CHAIN: Final = 10_000

#: What an id may look like. No store sees any other, so the parts of a key stay apart.
_ID = re.compile(r"[A-Za-z0-9_.-]{1,256}")


class UnreadableResponse(StoreUnavailable):
    """A stored response is broken, or a newer version wrote it."""

    def __init__(self) -> None:
        super().__init__("The stored response cannot be read.")


class NotStoredYet(StoreUnavailable):
    """A response is still on its way to the store."""

    def __init__(self, response_id: str) -> None:
        super().__init__(f"Response '{response_id}' is not stored yet. Try again.")


class ResponseNotStored(StoreUnavailable):
    """A response was completed and is lost; its client must not take it for an unknown one.

    Attributes:
        reason: Why, in the words that the client reads.
    """

    def __init__(self, response_id: str, reason: str) -> None:
        super().__init__(f"Response '{response_id}' was completed, but not stored: {reason}.")
        self.reason = reason


class ChainTooLong(ClientFault):
    """A stored response builds on more items than a create may.

    Args:
        response_id: The response that the create names as its parent.
        length: The items of its chain.
        max_items: The items that a chain may hold.
    """

    def __init__(self, response_id: str, length: int, max_items: int) -> None:
        super().__init__(
            f"Previous response with id '{response_id}' builds on {length} items, "
            f"and at most {max_items} are allowed. Start a new chain.",
            code="chain_too_long",
            param="previous_response_id",
        )


def conversation_mark(conversation_id: str) -> Entry:
    """Return what ends the output of a response that was bound to a conversation."""
    return Entry(b"", conversation_id)


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """One finished response, never a failed one.

    Attributes:
        id: Its id.
        key_id: The API key whose it is.
        parent_id: The response it continues; None for the first of a chain.
        body: Its final object, the JSON that the client got.
        input_items: The items of its own create, in the form they are replayed in.
        output_items: Its output, in the form it is replayed in.
    """

    id: str
    key_id: str
    parent_id: str | None
    body: bytes
    input_items: tuple[Entry, ...]
    output_items: tuple[Entry, ...]

    @property
    def length(self) -> int:
        """What it adds to the length of its chain. An empty one counts: it costs a read, too."""
        return max(1, len(self.input_items) + len(self.output_items))


@dataclass(frozen=True, slots=True)
class ChainLink:
    """What one response adds to its chain."""

    id: str
    input_items: tuple[Entry, ...]
    output_items: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class StoredChain:
    """A response and all it builds on, the oldest first; never empty."""

    links: tuple[ChainLink, ...]

    @property
    def conversation_id(self) -> str | None:
        """The conversation that the oldest response was bound to."""
        last = self.links[0].output_items[-1:]
        return last[0].id if last and not last[0].data else None

    def head(self, lane: str | None = None, root: Node | None = None) -> Node:
        """Return the response as a parent on `lane`, linked to all it builds on. O(items).

        `root` is what was in the conversation before the oldest response.
        """
        first, *rest = self.links
        outputs = [entry for entry in first.output_items if entry.data]
        node = Node.of(first.id, lane, root, first.input_items, outputs)
        for link in rest:
            node = Node.of(link.id, lane, node, link.input_items, link.output_items)
        return node


class ResponseStore(Protocol):
    """Keeps responses by API key: another key's id looks exactly like an unknown one.

    Every method raises StoreUnavailable, within two seconds, when the store is away, and
    UnreadableResponse for bytes that it cannot read.
    """

    async def save(self, response: StoredResponse) -> None:
        """Save a response as a possible parent. Idempotent by its id: the first save wins.

        The parent must be saved before. If it is not there (store=false, deleted, expired, lost),
        `get` and `delete` find the response and `load` does not: a chain without its beginning
        would be another conversation. All that the response builds on is kept for another
        `store_ttl`. O(own items + forks on the way to the root).

        Raises:
            StoreUnavailable: The store is away; the response may be saved all the same.
        """

    async def load(self, key_id: str, response_id: str, max_items: int) -> StoredChain | None:
        """Return the response and all it builds on; None if nothing can continue it.

        Args:
            key_id: The API key that asks.
            response_id: The last response of the chain.
            max_items: Items that the chain may hold.

        Raises:
            ChainTooLong: The chain holds more items; none was read.
            StoreUnavailable: The store is away.
        """

    async def get(self, key_id: str, response_id: str) -> bytes | None:
        """Return the response object as saved; None if the key has no such response.

        Raises:
            StoreUnavailable: The store is away.
        """

    async def delete(self, key_id: str, response_id: str) -> bool:
        """Forget a response; return False if the key has no such response.

        Nothing can continue it any more. Its items stay only while other responses build on them.

        Raises:
            StoreUnavailable: The store is away; the response may be gone all the same.
        """

    async def aclose(self) -> None:
        """Let go of the store."""


def plausible(response_id: str) -> bool:
    """Return whether this can be the id of a stored response at all."""
    return _ID.fullmatch(response_id) is not None
