"""Which item of a response an upstream event is about: by name, by place, or by what is open.

Backends name and number their items each in their own way, some rename them on every event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lanes.stream.items import Item


class ItemIndex:
    """The items of one response in order, and every name that the backend has used for them."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._by_name: dict[str, Item] = {}
        self._reserved: set[str] = set()

    def add(self, item: Item, known: dict[str, Any], source_id: object) -> None:
        """Append an item. `source_id` is its name from now on, whatever it named before."""
        self.items.append(item)
        if isinstance(source_id, str) and source_id:
            self._by_name[source_id] = item
        self.name(item, known)

    def name(self, item: Item, known: dict[str, Any]) -> None:
        """Remember the names in the backend's own form of the item."""
        for name in _names(known):
            self._by_name.setdefault(name, item)

    def named(self, name: object) -> Item | None:
        """The item that the backend calls so."""
        return self._by_name.get(name) if isinstance(name, str) else None

    def reserve(self, known: dict[str, Any]) -> None:
        """These names are of an item that is still to come, and of no other."""
        self._reserved.update(_names(known))

    def bound(self, event: dict[str, Any], item_type: str | None) -> Item | None:
        """By known name; by place and type; the open item of that type; without names the last."""
        source = event.get("item_id")
        name = source if isinstance(source, str) and source else None
        named = self._by_name.get(name) if name else None
        if named is not None and item_type in (None, named.type):
            return named
        if named is None and name in self._reserved:
            return None
        index = integer(event.get("output_index"))
        found = self._placed(index, item_type)
        if found is None and index is None and name is None:
            found = self._last(item_type, late=event["type"].endswith(".done"))
        if found is not None and name is not None:
            self._by_name[name] = found
        return found

    def _placed(self, index: int | None, item_type: str | None) -> Item | None:
        same = [item for item in reversed(self.items) if item_type in (None, item.type)]
        for item in same:
            if index is not None and item.source_index == index:
                return item
        # In another place is another item, though nobody announced it.
        return next((item for item in same if item.open and not item.elsewhere(index)), None)

    def _last(self, item_type: str | None, *, late: bool) -> Item | None:
        """The last item of that type; if it had its end, only for what may come `late`."""
        same = [item for item in self.items if item_type in (None, item.type)]
        return same[-1] if same and (late or same[-1].final is None) else None

    def known(self, item: dict[str, Any]) -> Item | None:
        """The item that goes by a name of this one."""
        for name in _names(item):
            found = self._by_name.get(name)
            if found is not None and found.type == item["type"]:
                return found
        return None

    def find(self, final: dict[str, Any], index: int | None) -> Item | None:
        """The item that `final` is the end of: by name, by place, or the one without an end.

        None if there is none, or if that one was closed before any of its text was told.
        """
        found = self.known(final)
        if found is not None:
            return None if found.missed(final) else found
        if not self._reserved.isdisjoint(_names(final)):
            return None
        same = [i for i in self.items if i.type == final["type"] and not i.missed(final)]
        told_twice = next((item for item in same if item.final == final), None)
        if told_twice is not None:
            return told_twice
        endless = [item for item in same if item.final is None]
        for item in endless:
            if index is not None and item.source_index == index:
                return item
        fitting = (i for i in endless if not i.elsewhere(index) and not i.contradicts(final))
        return next(fitting, None)

    def match(self, finals: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], Item | None]]:
        """Pair each of the backend's final items with one of ours, None where there is none.

        Names first, then the order within a type: some backends rename everything at the end.
        """
        pairs = [(final, self.known(final)) for final in finals]
        taken = {id(item) for _, item in pairs if item is not None}
        for final, named in pairs:
            item = named
            if item is None:
                same = (i for i in self.items if i.type == final["type"] and not i.missed(final))
                item = next((i for i in same if id(i) not in taken), None)
                taken.add(id(item))
            yield final, None if item is not None and item.missed(final) else item


def integer(value: object) -> int | None:
    """The value if it is an integer."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _names(item: dict[str, Any]) -> list[str]:
    names = (item.get("id"), item.get("call_id"))
    return [name for name in names if isinstance(name, str) and name]


def is_item(value: object) -> bool:
    """Whether it is an item of any type."""
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def item_of(event: dict[str, Any]) -> dict[str, Any] | None:
    """The item that an event is about, if it is one."""
    item = event.get("item")
    return item if isinstance(item, dict) and is_item(item) else None
