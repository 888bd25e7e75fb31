"""Which item of a response an upstream event is about: by name, by place, or by what is open.

Backends name and number their items each in their own way; some rename them on every event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lanes.history.entries import Entry
    from lanes.stream.items import Item


class ItemIndex:
    """The items of one response in order, and every name that the backend has used for them."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._by_name: dict[str, Item] = {}
        self._reserved: set[str] = set()

    def add(self, item: Item, added: dict[str, Any], source_id: object, index: int | None) -> None:
        """Append an item.

        Args:
            item: The new item.
            added: The backend's own form of it.
            source_id: The item's name from now on, whatever it named before.
            index: The place that the backend claims for it.
        """
        item.source_index = index
        self.items.append(item)
        if isinstance(source_id, str) and source_id:
            self._by_name[source_id] = item
        self.learn_names(item, added)

    def learn_names(self, item: Item, source: dict[str, Any]) -> None:
        """Remember the names in the backend's own form of the item."""
        for name in _names(source):
            self._by_name.setdefault(name, item)

    def by_name(self, name: object) -> Item | None:
        """Return the item that the backend calls by that name."""
        return self._by_name.get(name) if isinstance(name, str) else None

    def reserve(self, source: dict[str, Any]) -> None:
        """Keep the names of an item that is still to come: they are of no other item."""
        self._reserved.update(_names(source))

    def target_of(self, event: dict[str, Any], item_type: str | None) -> Item | None:
        """Return the item that an event is about, None for a new one.

        `item_type` is the type that the item must have, None for any. In this order:

        1. The event names an item of that type: that one.
        2. The event has the name of an item that is still to come: none of ours.
        3. An item of that type has the event's place, or is open and has no other place: that one.
        4. The event has neither name nor place: the last item of that type, if it has no end yet,
           or if the event is an end itself, which may come late.

        An item that is found by 3 goes by the event's name, if any, from now on.
        """
        source_id = event.get("item_id")
        name = source_id if isinstance(source_id, str) and source_id else None
        named = self._by_name.get(name) if name else None
        if named is not None and item_type in (None, named.type):
            return named
        if named is None and name in self._reserved:
            return None
        index = integer(event.get("output_index"))
        item = self._placed(index, item_type)
        if item is None and index is None and name is None:
            item = self._last(item_type, late=event["type"].endswith(".done"))
        if item is not None and name is not None:
            self._by_name[name] = item
        return item

    def _placed(self, index: int | None, item_type: str | None) -> Item | None:
        same_type = [item for item in reversed(self.items) if item_type in (None, item.type)]
        for item in same_type:
            if index is not None and item.source_index == index:
                return item
        # In another place is another item, though nobody announced it.
        return next((item for item in same_type if item.open and not item.elsewhere(index)), None)

    def _last(self, item_type: str | None, *, late: bool) -> Item | None:
        same_type = [item for item in self.items if item_type in (None, item.type)]
        return same_type[-1] if same_type and (late or same_type[-1].final is None) else None

    def sharing_name(self, source: dict[str, Any], index: int | None = None) -> Item | None:
        """Return the item of the same type that has a name of this one, which is at place `index`.

        Some backends use one `call_id` for two calls, and others rename an item with each event.
        """
        for name in _names(source):
            item = self._by_name.get(name)
            if item is not None and item.type == source["type"]:
                other = name == source.get("call_id") and _is_another(item, source, index)
                return None if other else item
        return None

    def taken_call_id(self, added: dict[str, Any]) -> str:
        """Return the `call_id` of a new call if it is that of an earlier one, else nothing."""
        call_id = added.get("call_id")
        taken = (item.call_id == call_id for item in self.items if item.call is not None)
        return call_id if isinstance(call_id, str) and call_id and any(taken) else ""

    def ended_by(self, final: dict[str, Any], index: int | None) -> Item | None:
        """Return the item that `final`, at place `index`, is the end of; None for a new one.

        An item that was closed before any of its text was sent gets no end: `final` is a new item
        then. Else, in this order:

        1. An item shares a name with `final`: that one.
        2. `final` has a name of an item that is still to come: none of ours.
        3. An item had the very same end before: that one, for the end came twice.
        4. An item without an end has the place of `final`: that one.
        5. The first item without an end that is in no other place and no other call.
        """
        named = self.sharing_name(final, index)
        if named is not None:
            return None if named.missed(final) else named
        if not self._reserved.isdisjoint(_names(final)):
            return None
        same_type = [i for i in self.items if i.type == final["type"] and not i.missed(final)]
        ended_twice = next((item for item in same_type if item.final == final), None)
        if ended_twice is not None:
            return ended_twice
        endless = [item for item in same_type if item.final is None]
        for item in endless:
            if index is not None and item.source_index == index:
                return item
        possible = (i for i in endless if not i.elsewhere(index) and not i.contradicts(final))
        return next(possible, None)

    def adopt(self, finals: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Give each item without an end its final form; return the finals that have no item."""
        unmatched = []
        for final, item in self.match(finals):
            if item is None:
                unmatched.append(final)
            elif item.final is None:
                item.finish(final)
        return unmatched

    def match(self, finals: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], Item | None]]:
        """Pair each of the backend's final items with one of ours, None where there is none.

        Names come first, then the order within a type: some backends rename everything at the end.
        """
        pairs = [(final, self.sharing_name(final)) for final in finals]
        taken = {id(item) for _, item in pairs if item is not None}
        for final, named in pairs:
            item = named
            if item is None:
                same = (i for i in self.items if i.type == final["type"] and not i.missed(final))
                item = next((i for i in same if id(i) not in taken), None)
                taken.add(id(item))
            yield final, None if item is not None and item.missed(final) else item


def _is_another(item: Item, source: dict[str, Any], index: int | None) -> bool:
    """Return whether a call at place `index` is another than the item with its `call_id`."""
    if item.call is None or not source.get("id"):
        return False
    if item.elsewhere(index):
        return True
    if item.final is None or item.final.get("id") == source["id"]:
        return False
    key = item.call.kind.text_key
    return source.get(key) not in ("", None, item.final.get(key))


def integer(value: object) -> int | None:
    """Return the value if it is an integer, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def place(value: object) -> int | None:
    """Return the value if it is a part's place in its item; vLLM says -1 where it has none yet."""
    index = integer(value)
    return None if index is None or index < 0 else index


def is_item(value: object) -> bool:
    """Return whether the value is an item of any type."""
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def item_of(event: dict[str, Any]) -> dict[str, Any] | None:
    """Return the item that an event holds, None if it holds none."""
    item = event.get("item")
    return item if isinstance(item, dict) and is_item(item) else None


def _names(item: dict[str, Any]) -> list[str]:
    names = (item.get("id"), item.get("call_id"))
    return [name for name in names if isinstance(name, str) and name]


def replayed(items: Sequence[Item], *, plain: bool, stopped: bool) -> list[Entry]:
    """Return an output as the next request carries it: finished items, and text that was sent.

    It lacks calls that were cut off, reasoning that the backend does not take back, and reasoning
    that a cut left dangling (protocol.md 3).

    Args:
        items: The output.
        plain: Whether the backend takes reasoning in the clear back.
        stopped: Whether the response stopped before it had finished.
    """
    kept = [item for item in items if item.replayable(plain_reasoning=plain)]
    if stopped or kept[-1:] != list(items[-1:]):
        while kept and kept[-1].type == "reasoning":
            kept.pop()
    return [item.entry() for item in kept]
