"""What every store of responses can do. One contract, run against each of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from lanes.errors import ClientFault
from lanes.history.lineage import Node
from steering.errors import StoreUnavailable

if TYPE_CHECKING:
    from lanes.history.entries import Entry

#: How long a response is kept after it was made, in seconds: 30 days.
STORE_TTL: Final = 30 * 24 * 3600
#: Items a chain may hold.
MAX_CHAIN: Final = 10_000

#: No store is asked about anything else; and it keeps the parts of a key apart.
_ID = re.compile(r"[A-Za-z0-9_.-]{1,256}")


class UnreadableResponse(StoreUnavailable):
    """A stored response is broken, or a newer version wrote it."""

    def __init__(self) -> None:
        super().__init__("The stored response cannot be read.")


class NotStoredYet(StoreUnavailable):
    """A response is still on its way to the store."""

    def __init__(self, response_id: str) -> None:
        super().__init__(f"Response '{response_id}' is not stored yet. Try again.")


class ChainTooLong(ClientFault):
    """A stored response has more items behind it than a create may build on."""

    def __init__(self, response_id: str, length: int, max_items: int) -> None:
        super().__init__(
            f"Previous response with id '{response_id}' builds on {length} items, "
            f"and at most {max_items} are allowed. Start a new chain.",
            code="chain_too_long",
            param="previous_response_id",
        )


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """One finished response (never a failed one) of the API key `key_id`.

    `body` is its final object, the JSON that the client got. `input_items` are its create's own,
    `output_items` its output, both in the form they are replayed in.
    """

    id: str
    key_id: str
    parent_id: str | None
    body: bytes
    input_items: tuple[Entry, ...]
    output_items: tuple[Entry, ...]

    @property
    def length(self) -> int:
        """What it adds to the length of its chain. An empty one counts, too: it costs a read."""
        return max(1, len(self.input_items) + len(self.output_items))


@dataclass(frozen=True, slots=True)
class ChainLink:
    """What one response of a chain adds to it."""

    id: str
    input_items: tuple[Entry, ...]
    output_items: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class StoredChain:
    """A response and all it builds on, oldest first; never empty."""

    links: tuple[ChainLink, ...]

    def head(self, lane: str | None = None) -> Node:
        """The response as a parent, linked to all it builds on. O(items)."""
        first, *rest = self.links
        node = Node.of(first.id, lane, None, first.input_items, first.output_items)
        for link in rest:
            node = Node.of(link.id, lane, node, link.input_items, link.output_items)
        return node


class ResponseStore(Protocol):
    """Stored responses, by API key: a foreign id looks exactly like an unknown one.

    Every method raises StoreUnavailable, within 2 seconds, when the store is away.
    """

    async def save(self, response: StoredResponse) -> None:
        """Keep a response and make it usable as a parent. Idempotent by its id: the first wins.

        The parent must have been saved before. If it is not there (store=false, deleted, expired,
        lost), the response can be got and deleted, but `load` does not find it: a chain without
        its beginning would be another conversation. All the response builds on is kept for
        another `store_ttl`. O(own items + forks on the way to the root).
        """

    async def load(self, key_id: str, response_id: str, max_items: int) -> StoredChain | None:
        """The response and all it builds on; None if it cannot be continued from here.

        Raises ChainTooLong, before anything is read, if that is more than `max_items`.
        """

    async def get(self, key_id: str, response_id: str) -> bytes | None:
        """The response object as saved; None if there is none."""

    async def delete(self, key_id: str, response_id: str) -> bool:
        """Forget a response; False if there is none.

        It is nobody's parent any more, but those that build on it already keep its items. What
        nothing builds on is really gone.
        """

    async def aclose(self) -> None:
        """Let go of the store."""


def plausible(response_id: str) -> bool:
    """Whether this can be the id of a stored response at all."""
    return _ID.fullmatch(response_id) is not None
