"""What a response continues from: the cache of one connection's responses (protocol.md 3).

A response is a node that holds its own items and points to its parent, so a chain costs memory for
each item once, however many forks it has. Pure: no clock, no I/O.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lanes.errors import ClientFault
from lanes.history.entries import Entry, answers, invalid, reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

    from lanes.history.entries import CallKey

#: What a node and an entry cost beside the bytes of JSON, roughly. Without it, responses that hold
#: nothing (`generate: false`) could pile up for ever.
NODE_BYTES = 768
ENTRY_BYTES = 384


@dataclass(slots=True, eq=False)
class Node:
    """One response: its own items, its parent, and the lane it ran on (None: the default lane).

    Never changed but for `holders`: one for its id in the cache, one for each held child.
    """

    id: str
    lane: str | None
    parent: Node | None = field(repr=False)
    input_items: tuple[bytes, ...]
    output_items: tuple[bytes, ...]
    calls: frozenset[CallKey]
    items: Mapping[str, Entry] = field(repr=False)
    #: In bytes, without the parent's.
    size: int
    #: Items of the whole chain.
    length: int
    holders: int = 0

    @classmethod
    def of(
        cls,
        id: str,
        lane: str | None,
        parent: Node | None,
        input_items: Iterable[Entry],
        output_items: Iterable[Entry],
    ) -> Node:
        """Build a node that no cache holds; a parent from the response store is one, too."""
        before, after = tuple(input_items), tuple(output_items)
        entries = before + after
        return cls(
            id,
            lane,
            parent,
            tuple(entry.data for entry in before),
            tuple(entry.data for entry in after),
            frozenset(key for entry in entries for key in entry.calls),
            {entry.id: entry for entry in entries if entry.id is not None},
            NODE_BYTES + sum(ENTRY_BYTES + len(entry.data) for entry in entries),
            len(entries) + (parent.length if parent is not None else 0),
        )


class Lineage:
    """The responses one connection can continue from, bounded by bytes.

    The latest response of each lane is pinned. Over `max_bytes` the ids unused for longest are
    forgotten; their items stay, and stay counted, while a response that is kept builds on them.
    """

    def __init__(self, max_bytes: int = 32 * 1024 * 1024) -> None:
        self._max_bytes = max_bytes
        # Least recently used first.
        self._nodes: OrderedDict[str, Node] = OrderedDict()
        self._heads: dict[str | None, str] = {}
        # Which held nodes have an item of that id, in the order in which they came.
        self._owners: dict[str, dict[Node, None]] = {}
        self._bytes = 0

    @property
    def bytes_held(self) -> int:
        """What the kept responses and all they build on occupy, each item once."""
        return self._bytes

    def find(self, response_id: str) -> Node | None:
        """The response of that id, which now counts as used."""
        node = self._nodes.get(response_id)
        if node is not None:
            self._nodes.move_to_end(response_id)
        return node

    def resolve(self, parent_id: str | None) -> Node | None:
        """The parent a create names; None for none. Raises ClientFault when it is not here."""
        if parent_id is None:
            return None
        node = self.find(parent_id)
        if node is None:
            raise _parent_not_found(parent_id)
        return node

    @staticmethod
    def effective(node: Node | None) -> list[bytes]:
        """All that came before: the chain's items in order, each once."""
        chain = list(_chain(node))
        return [
            item for link in reversed(chain) for item in (*link.input_items, *link.output_items)
        ]

    def find_items(self, node: Node | None, item_ids: Set[str]) -> dict[str, Entry]:
        """The items of those ids: of the chain, nearest first, else the latest on this connection.

        Ids that are nowhere are left out.
        """
        found: dict[str, Entry] = {}
        wanted = set(item_ids)
        for link in _chain(node):
            if not wanted:
                break
            for item_id in link.items.keys() & wanted:
                found[item_id] = link.items[item_id]
                wanted.remove(item_id)
        for item_id in wanted & self._owners.keys():
            latest = next(reversed(self._owners[item_id]))
            found[item_id] = latest.items[item_id]
        return found

    def keep(
        self,
        id: str,
        lane: str | None,
        parent: Node | None,
        input_items: Iterable[Entry],
        output_items: Iterable[Entry],
    ) -> Node:
        """Remember a finished response (never a failed one) as the latest of its lane.

        `input_items` are the create's own, `output_items` in the form they are replayed in.
        """
        node = Node.of(id, lane, parent, input_items, output_items)
        self._hold(node)
        self._forget(id)
        self._nodes[id] = node
        self._heads[lane] = id
        self._shrink()
        return node

    def evict_failed(self, lane: str | None, parent_id: str | None) -> None:
        """A create on `lane` that named this parent ended in a 4xx or 5xx.

        On the parent's own lane the parent is forgotten; a failed fork from another lane leaves it.
        """
        node = self._nodes.get(parent_id) if parent_id is not None else None
        if node is not None and node.lane == lane:
            self._forget(node.id)

    def _shrink(self) -> None:
        pinned = set(self._heads.values())
        while self._bytes > self._max_bytes:
            # Passes over one pinned id per lane at most, so the search is short.
            oldest = next((id for id in self._nodes if id not in pinned), None)
            if oldest is None:
                return
            self._forget(oldest)

    def _forget(self, response_id: str) -> None:
        node = self._nodes.pop(response_id, None)
        if node is None:
            return
        if self._heads.get(node.lane) == response_id:
            del self._heads[node.lane]
        self._release(node)

    def _hold(self, node: Node | None) -> None:
        """Count one more holder; a node that had none holds its parent in turn."""
        while node is not None:
            node.holders += 1
            if node.holders > 1:
                return
            self._bytes += node.size
            for item_id in node.items:
                self._owners.setdefault(item_id, {})[node] = None
            node = node.parent

    def _release(self, node: Node | None) -> None:
        """Count one holder less; a node that has none left lets go of its parent in turn."""
        while node is not None:
            node.holders -= 1
            if node.holders:
                return
            self._bytes -= node.size
            for item_id in node.items:
                owners = self._owners[item_id]
                del owners[node]
                if not owners:
                    del self._owners[item_id]
            node = node.parent


def _parent_not_found(parent_id: str) -> ClientFault:
    """The error of a `previous_response_id` that is nobody's here."""
    return ClientFault(
        f"Previous response with id '{parent_id}' not found.",
        code="previous_response_not_found",
        param="previous_response_id",
    )


def check_outputs(
    items: Sequence[Mapping[str, Any]],
    node: Node | None,
    lineage: Lineage,
    *,
    conversation: bool = False,
) -> tuple[Entry, ...]:
    """Encode a create's items for the backend, references replaced by what they name.

    Raises ClientFault (400, param `input`) for an output whose call is neither in the chain of
    `node` nor among `items`, and for a reference to an unknown item. Not in a `conversation`: only
    the backend knows what else is in there.
    """
    entries = _entries(items, node, lineage, conversation=conversation)
    if conversation:
        return entries
    missing = {key: item for item in items if (key := answers(item)) is not None}
    for entry in entries:
        for key in entry.calls:
            missing.pop(key, None)
    for link in _chain(node):
        if not missing:
            break
        for key in missing.keys() & link.calls:
            del missing[key]
    for (name, value), item in missing.items():
        kind = item["type"].replace("_", " ")
        raise invalid(f"No tool call found for {kind} with {name} {value}.")
    return entries


def _entries(
    items: Sequence[Mapping[str, Any]],
    node: Node | None,
    lineage: Lineage,
    *,
    conversation: bool,
) -> tuple[Entry, ...]:
    references = [reference(item) for item in items]
    named = lineage.find_items(node, {item_id for item_id in references if item_id is not None})
    entries = []
    for item, item_id in zip(items, references, strict=True):
        known = None if item_id is None else named.get(item_id)
        if item_id is not None and known is None and not conversation:
            raise invalid(f"Item with id '{item_id}' not found.")
        entries.append(known or Entry.of(item))
    return tuple(entries)


def _chain(node: Node | None) -> Iterator[Node]:
    """The node and all it builds on, latest first."""
    while node is not None:
        yield node
        node = node.parent
