"""Bugs planted in lineage and its entries."""

from __future__ import annotations

from functools import partial
from typing import Any

from lanes.history import lineage
from lanes.history.entries import Entry
from lanes.history.lineage import Lineage, Node
from tests.machines.bugs import Bugs
from tests.machines.rules import play

BUGS = Bugs(partial(play, 400))


@BUGS.plant(Lineage, "evict_failed")
def a_failed_fork_evicts_the_parent_of_another_lane(original: Any) -> Any:
    def evict(self: Lineage, lane: str | None, parent_id: str | None) -> None:
        node = self._nodes.get(parent_id or "")
        original(self, node.lane if node else lane, parent_id)

    return evict


@BUGS.plant(Lineage, "evict_failed")
def a_failed_continuation_leaves_its_parent(original: Any) -> Any:
    return lambda self, lane, parent_id: None


@BUGS.plant(Lineage, "_shrink")
def a_pinned_head_is_evicted(original: Any) -> Any:
    def shrink(self: Lineage) -> None:
        while self._bytes > self._max_bytes and self._nodes:
            self._forget(next(iter(self._nodes)))

    return shrink


@BUGS.plant(Lineage, "_shrink")
def the_newest_goes_first(original: Any) -> Any:
    def shrink(self: Lineage) -> None:
        for response_id in reversed(list(self._nodes)):
            if self._bytes > self._max_bytes and response_id not in self._heads.values():
                self._forget(response_id)

    return shrink


@BUGS.plant(Lineage, "_shrink")
def nothing_is_ever_evicted(original: Any) -> Any:
    return lambda self: None


@BUGS.plant(Lineage, "find")
def use_does_not_count(original: Any) -> Any:
    return lambda self, response_id: self._nodes.get(response_id)


@BUGS.plant(Lineage, "_release")
def bytes_are_released_while_a_child_needs_them(original: Any) -> Any:
    def release(self: Lineage, node: Node | None) -> None:
        if node is not None and node.holders > 1:
            self._bytes -= node.size
        original(self, node)

    return release


@BUGS.plant(Lineage, "_release")
def parents_are_never_released(original: Any) -> Any:
    def release(self: Lineage, node: Node | None) -> None:
        if node is not None:
            parent, node.parent = node.parent, None
            original(self, node)
            node.parent = parent

    return release


@BUGS.plant(Lineage, "_hold")
def a_revived_parent_is_not_counted(original: Any) -> Any:
    def hold(self: Lineage, node: Node | None) -> None:
        before = self._bytes
        original(self, node)
        if node is not None:
            self._bytes = before + node.size

    return hold


@BUGS.plant(Lineage, "_release")
def released_items_can_still_be_referenced(original: Any) -> Any:
    def release(self: Lineage, node: Node | None) -> None:
        owners = {item_id: dict(nodes) for item_id, nodes in self._owners.items()}
        original(self, node)
        self._owners.update(owners)

    return release


@BUGS.plant(Lineage, "keep")
def forks_write_into_their_parent(original: Any) -> Any:
    def keep(
        self: Lineage, id: str, lane: str | None, parent: Node | None, before: Any, after: Any
    ) -> Node:
        node: Node = original(self, id, lane, parent, before, after)
        if parent is not None:
            parent.output_items += node.input_items
        return node

    return keep


@BUGS.plant(Lineage, "keep")
def items_are_doubled_down_the_chain(original: Any) -> Any:
    def keep(
        self: Lineage, id: str, lane: str | None, parent: Node | None, before: Any, after: Any
    ) -> Node:
        inherited = [Entry(item) for item in self.effective(parent)]
        node: Node = original(self, id, lane, parent, [*inherited, *before], after)
        return node

    return keep


@BUGS.plant(Lineage, "effective")
def history_is_the_last_turn_only(original: Any) -> Any:
    def effective(node: Node | None) -> list[bytes]:
        return [*node.input_items, *node.output_items] if node else []

    return staticmethod(effective)


@BUGS.plant(Lineage, "effective")
def outputs_come_before_inputs(original: Any) -> Any:
    def effective(node: Node | None) -> list[bytes]:
        items = []
        for link in reversed(list(lineage._chain(node))):
            items += [*link.output_items, *link.input_items]
        return items

    return staticmethod(effective)


@BUGS.plant(Lineage, "find_items")
def references_ignore_the_branch(original: Any) -> Any:
    return lambda self, node, item_ids: original(self, None, item_ids)


@BUGS.plant(lineage, "_chain")
def calls_are_sought_in_the_parent_only(original: Any) -> Any:
    def chain(node: Node | None) -> list[Node]:
        return [node] if node is not None else []

    return chain


@BUGS.plant(lineage, "answers")
def no_output_is_ever_checked(original: Any) -> Any:
    return lambda item: None


@BUGS.plant(Entry, "of")
def empty_values_are_lost(original: Any) -> Any:
    def of(item: dict[str, Any], data: bytes | None = None) -> Entry:
        entry: Entry = original({key: value for key, value in item.items() if value}, data)
        return entry

    return of
