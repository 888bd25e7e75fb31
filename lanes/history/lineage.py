"""MACHINE: the responses that one connection can continue (protocol.md 3).

A response is a node that holds its own items and points to its parent, so a chain costs memory for
each item once, however many forks it has. Pure: no clock, no I/O.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lanes.errors import parent_not_found
from lanes.history.entries import Entry, answers, invalid, reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
    from typing import Self

    from lanes.history.entries import CallKey

    Entries = Iterable[Entry]

#: Rough cost of a node and of an entry beside their JSON, in bytes. Without it, responses without
#: items (`generate: false`) could pile up for ever.
NODE_BYTES = 768
ENTRY_BYTES = 384


@dataclass(slots=True, eq=False)
class Node:
    """One response: its own items and the response it continues. Only `holders` ever changes.

    Attributes:
        id: The response's id.
        lane: The lane it ran on; None is the default lane.
        parent: The response it continues.
        input_items: Its own input as JSON.
        output_items: Its output as JSON, in the form that is replayed.
        calls: The calls among its items that an output may answer.
        items: Its items that have an id.
        size: Bytes, without the parent's.
        length: Items of the whole chain.
        compacted: Whether a compaction item is among these.
        tokens: How long its context was at its end, if the backend counted that.
        holders: One for its id in the cache, one for each held child.
    """

    id: str
    lane: str | None
    parent: Node | None = field(repr=False)
    input_items: tuple[bytes, ...]
    output_items: tuple[bytes, ...]
    calls: frozenset[CallKey]
    items: Mapping[str, Entry] = field(repr=False)
    size: int
    length: int
    compacted: bool = False
    tokens: int | None = None
    holders: int = 0

    @classmethod
    def of(
        cls, id: str, lane: str | None, parent: Node | None, inputs: Entries, outputs: Entries
    ) -> Self:
        """Return a node that no cache holds, as a parent from the response store is one.

        Args:
            id: The response's id.
            lane: The lane it ran on.
            parent: The response it continues.
            inputs: Its own input.
            outputs: Its output in the form that is replayed.
        """
        before, after = tuple(inputs), tuple(outputs)
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
            any(entry.compacts for entry in entries) or (parent is not None and parent.compacted),
        )


class Lineage:
    """The responses that one connection can continue, bounded by bytes.

    The latest response of each lane is pinned. Over `max_bytes` the least recently used ids are
    forgotten; their items stay, and stay counted, while a kept response builds on them.
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
        """Bytes of the kept responses and all they build on, each item once."""
        return self._bytes

    def find(self, response_id: str) -> Node | None:
        """Return the response of that id, which now counts as used."""
        node = self._nodes.get(response_id)
        if node is not None:
            self._nodes.move_to_end(response_id)
        return node

    def resolve(self, parent_id: str | None) -> Node | None:
        """Return the parent that a create names. Raises ClientFault when it is not here."""
        if parent_id is None:
            return None
        node = self.find(parent_id)
        if node is None:
            raise parent_not_found(parent_id)
        return node

    @staticmethod
    def effective(node: Node | None) -> list[bytes]:
        """Return all that came before: the chain's items in order, each once."""
        chain = list(_chain(node))
        return [
            item for link in reversed(chain) for item in (*link.input_items, *link.output_items)
        ]

    def find_items(self, node: Node | None, item_ids: Set[str]) -> dict[str, Entry]:
        """Return the items of those ids, without those that are nowhere.

        The chain of `node` comes first, nearest first, then the latest on this connection.
        """
        entries: dict[str, Entry] = {}
        wanted = set(item_ids)
        for link in _chain(node):
            if not wanted:
                break
            for item_id in link.items.keys() & wanted:
                entries[item_id] = link.items[item_id]
                wanted.remove(item_id)
        for item_id in wanted & self._owners.keys():
            latest = next(reversed(self._owners[item_id]))
            entries[item_id] = latest.items[item_id]
        return entries

    def keep(
        self,
        id: str,
        lane: str | None,
        parent: Node | None,
        input_items: Iterable[Entry],
        output_items: Iterable[Entry],
    ) -> Node:
        """Remember a finished response (never a failed one) as the latest of its lane.

        Args:
            id: The response's id.
            lane: The lane it ran on.
            parent: The response it continues.
            input_items: The create's own.
            output_items: Its output in the form that is replayed.
        """
        node = Node.of(id, lane, parent, input_items, output_items)
        self._hold(node)
        self._forget(id)
        self._nodes[id] = node
        self._heads[lane] = id
        self._shrink()
        return node

    def evict_failed(self, lane: str | None, parent_id: str | None) -> None:
        """Forget the parent of a create on `lane` that ended in a 4xx or 5xx (protocol.md 3).

        A failed fork from another lane than the parent's leaves it.
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


def resolve_input(
    items: Sequence[Mapping[str, Any]],
    node: Node | None,
    lineage: Lineage,
    *,
    conversation: bool = False,
) -> tuple[Entry, ...]:
    """Encode a create's input for the backend; what a reference names takes its place.

    Args:
        items: The create's own input.
        node: The response it continues.
        lineage: Where references that the chain does not answer are looked up.
        conversation: Whether it is bound to one of the backend's, which alone knows what else is in
            there, so outputs and references are its to judge.

    Raises:
        ClientFault: A reference names an unknown item, or an output answers a call that is neither
            in the chain of `node` nor among `items` (400, param `input`). It counts as a 4xx of the
            continuation (D9). Behind a compaction item only that item says which calls there are.
    """
    entries: list[Entry] = []
    references: dict[int, str] = {}
    outputs: dict[CallKey, Mapping[str, Any]] = {}
    for place, item in enumerate(items):
        item_id = reference(item)
        if item_id is not None:
            references[place] = item_id
        elif (call := answers(item)) is not None:
            outputs[call] = item
        entries.append(Entry.of(item))
    if references:
        named = lineage.find_items(node, set(references.values()))
        for place, item_id in references.items():
            if item_id not in named and not conversation:
                raise invalid(f"Item with id '{item_id}' not found.")
            entries[place] = named.get(item_id, entries[place])
    if outputs and not conversation:
        _check_outputs(outputs, entries, node)
    return tuple(entries)


def _check_outputs(
    outputs: dict[CallKey, Mapping[str, Any]], entries: list[Entry], node: Node | None
) -> None:
    """Raise ClientFault for an output whose call is neither in the input nor in the chain."""
    if any(entry.compacts for entry in entries) or (node is not None and node.compacted):
        return
    for entry in entries:
        for call in entry.calls:
            outputs.pop(call, None)
    for link in _chain(node):
        if not outputs:
            return
        for call in outputs.keys() & link.calls:
            del outputs[call]
    for (name, value), item in outputs.items():
        kind = item["type"].replace("_", " ")
        raise invalid(f"No tool call found for {kind} with {name} {value}.")


def _chain(node: Node | None) -> Iterator[Node]:
    """Yield the node and all it builds on, latest first."""
    while node is not None:
        yield node
        node = node.parent
