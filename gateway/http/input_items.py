"""Pure: what a response was made from -> the items that its client reads (protocol.md 7)."""

from __future__ import annotations

import hashlib
from itertools import count
from typing import TYPE_CHECKING

from lanes.conversations.items import given_items
from lanes.history.entries import Entry

if TYPE_CHECKING:
    from lanes.history.lineage import Node
    from lanes.stores.conversations import ConversationItem, Page


def input_items(response: Node) -> list[ConversationItem]:
    """Return all that a response was made from, the oldest first: what it continues, its own input.

    Each item has an id; where a client gave none, it is the same whenever it is asked for.
    """
    links, link = [], response.parent
    while link is not None:
        links.append(link)
        link = link.parent
    items: list[ConversationItem] = []
    for link in (*reversed(links), response):
        own = (*link.input_items, *(() if link is response else link.output_items))
        named = {id(entry.data): entry for entry in link.items.values()}
        taken = {item.id for item in items}
        entries = (named.get(id(data), Entry(data)) for data in own)
        items += given_items(entries, taken, _Mint(link.id))
    return items


def page_of_items(items: list[ConversationItem], page: Page) -> list[ConversationItem] | None:
    """Return the items of a page; None if there is no item that it could follow."""
    ordered = items[::-1] if page.descending else items
    if page.after is None:
        return ordered[: page.limit]
    places = (place for place, item in enumerate(ordered, 1) if item.id == page.after)
    start = next(places, None)
    return None if start is None else ordered[start : start + page.limit]


class _Mint:
    """Makes the ids of a response's items, in their order."""

    def __init__(self, response_id: str) -> None:
        self._response_id = response_id
        self._numbers = count()

    def __call__(self, prefix: str) -> str:
        text = f"{self._response_id} {next(self._numbers)}"
        return f"{prefix}_{hashlib.sha256(text.encode()).hexdigest()[:32]}"
