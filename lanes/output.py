"""The output of one response: which item an upstream event is about, and one item open at a time.

Backends number, name, order and close their items each in their own way; what leaves here has every
item opened once, closed once, in order of first appearance (protocol.md 4).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from lanes.codec import encode
from lanes.items import PREFIXES, PRIVATE_KEYS, Item
from lanes.parts import BY_DELTA, BY_DONE, CALL_KINDS, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.parts import Emit, Kind, Part
    from lanes.profile import Profile

log = logging.getLogger("multilane.run")

_TRANSPORT_KEYS = PRIVATE_KEYS | {"sequence_number", "stream_id", "event_id"}


class Output:
    """The items of one response, and the part that is live: the one whose deltas are flowing.

    `mint` makes an id from a prefix; `encrypted` says whether the client asked for encrypted
    reasoning.
    """

    def __init__(
        self, emit: Emit, profile: Profile, mint: Callable[[str], str], *, encrypted: bool
    ) -> None:
        self.items: list[Item] = []
        self.live: Part | None = None
        self._emit = emit
        self._profile = profile
        self._mint = mint
        self._encrypted = encrypted
        self._open: Item | None = None
        self._by_source: dict[str, Item] = {}
        self._held: list[dict[str, Any]] = []
        self._ending = False

    def receive(self, kind: str, event: dict[str, Any]) -> None:
        """Take one event about items: known ones are put in order, others pass with our ids."""
        self.live = None
        handler = _HANDLERS.get(kind, Output._other)
        event["type"] = kind
        handler(self, event)

    def finish(self, finals: object, status: str) -> None:
        """The response is over: close what is open and add what only the final `output` holds.

        `finals` is the backend's output list, believed for what was not streamed; None: it failed,
        and nothing is added.
        """
        self.live = None
        self._ending = True
        listed = [final for final in finals if _is_item(final)] if isinstance(finals, list) else []
        self._match(listed)
        self._close_open(status)
        while self._held:
            held, self._held = sorted(self._held, key=_place), []
            for event in held:
                self.receive(event["type"], event)
            self._close_open(status)
        for final in self._match(listed):
            self._add(final, final.get("id"), None)
            self._close_open(status, final)

    # Items

    def _added(self, event: dict[str, Any]) -> None:
        item, index = _item(event), _integer(event.get("output_index"))
        if item is None or self._known(item) is not None:
            return
        if self._waits():
            self._held.append(event)
            return
        self._add(item, item.get("id"), index)

    def _done(self, event: dict[str, Any]) -> None:
        final, index = _item(event), _integer(event.get("output_index"))
        if final is None:
            return
        item = self._find(final, index)
        if item is None:
            if self._waits() or self._gap(index):
                self._held.append(event)
                return
            item = self._add(final, final.get("id"), index)
        self._name(item, final)
        item.close(self._emit, final, "completed")
        if item is self._open:
            self._open = None
            self._release()

    def _add(self, added: dict[str, Any], source_id: object, index: int | None) -> Item:
        """Open an item, closing the one before it: one at a time."""
        self._close_open("completed")
        kind: str = added["type"]
        prefix = PREFIXES.get(kind, "item")
        item = Item(
            self._mint(prefix),
            added,
            len(self.items),
            self._mint("call"),
            encrypted=self._encrypted,
        )
        item.source_index = index
        if isinstance(source_id, str) and source_id:
            self._by_source[source_id] = item
        self._name(item, added)
        self.items.append(item)
        self._open = item
        item.start(self._emit)
        return item

    def _name(self, item: Item, known: dict[str, Any]) -> None:
        """Remember every name that the backend uses for the item."""
        for name in (known.get("id"), known.get("call_id") if item.call else None):
            if isinstance(name, str) and name:
                self._by_source.setdefault(name, item)

    def _close_open(self, status: str, final: dict[str, Any] | None = None) -> None:
        if self._open is not None:
            item, self._open = self._open, None
            item.close(self._emit, final or item.final, status)

    # Parts

    def _part_added(self, event: dict[str, Any]) -> None:
        known = event.get("part")
        kind = kind_of(known)
        if kind is None or kind.index_key is None:
            self._other(event)
            return
        item = self._target(event, kind)
        if item is None or not item.open:
            return
        index = _integer(event.get(kind.index_key))
        part = item.part(kind, index)
        if part is None or not part.open or (index is None and part.chunks):
            item.open_part(kind, self._emit, index, _object(known))

    def _part_done(self, event: dict[str, Any]) -> None:
        final = event.get("part")
        kind = kind_of(final)
        if kind is None or kind.index_key is None:
            self._other(event)
            return
        part = self._part(event, kind)
        if part is not None:
            part.close(self._emit, _object(final))

    def _delta(self, event: dict[str, Any]) -> None:
        kind = BY_DELTA[event["type"]]
        delta = event.get("delta")
        if not isinstance(delta, str) or not delta:
            return
        part = self._part(event, kind)
        if part is None or part.text_done:
            return
        part.source_id = event.get("item_id")
        part.delta(self._emit, _relayed(event))
        self.live = part

    def _text_done(self, event: dict[str, Any]) -> None:
        kind = BY_DONE[event["type"]]
        part = self._part(event, kind)
        if part is not None:
            part.finish_text(self._emit, event.get(kind.text_key))

    def _part(self, event: dict[str, Any], kind: Kind) -> Part | None:
        """The part an event is about, opened if need be; None if it comes too late or must wait."""
        item = self._target(event, kind)
        if item is None or not item.open:
            return None
        index = _integer(event.get(kind.index_key or ""))
        part = item.part(kind, index)
        if part is None or (not part.open and event["type"] == kind.delta):
            part = item.open_part(kind, self._emit, index)
        return part

    # Everything else that is about an item

    def _other(self, event: dict[str, Any]) -> None:
        relayed = _relayed(event)
        names_item = "item_id" in event or "output_index" in event
        item = self._bound(event, None) if names_item else None
        if names_item and item is None and self._waits():
            self._held.append(event)
            return
        if item is not None:
            relayed |= {"item_id": item.id} if "item_id" in event else {}
            relayed |= {"output_index": item.index} if "output_index" in event else {}
            self._annotate(item, event)
        self._emit(encode(relayed)[:-1])

    def _annotate(self, item: Item, event: dict[str, Any]) -> None:
        if event["type"] != "response.output_text.annotation.added" or not item.content:
            return
        annotations = item.content[-1].extra.setdefault("annotations", [])
        annotations.append(event.get("annotation"))

    # Which item

    def _target(self, event: dict[str, Any], kind: Kind) -> Item | None:
        """The item a part's event is about; a new one if none was announced.

        A call is never made up: without its name and call_id nobody could answer it.
        """
        item = self._bound(event, kind.item_type)
        resumes = item is not None and not item.open and item.final is None
        if item is not None and not (resumes and event["type"] == kind.delta):
            return item
        if self._waits():
            self._held.append(event)
            return None
        if kind.item_type in CALL_KINDS:
            return item
        index = _integer(event.get("output_index")) if item is None else None
        added = {"type": kind.item_type}
        if item is not None and item.source_index is not None:
            index = item.source_index
        return self._add(added, event.get("item_id"), index)

    def _bound(self, event: dict[str, Any], item_type: str | None) -> Item | None:
        """By known name; by place and type; the open item of that type; the last one of it."""
        source = event.get("item_id")
        named = self._by_source.get(source) if isinstance(source, str) else None
        if named is not None and item_type in (None, named.type):
            return named
        index = _integer(event.get("output_index"))
        same = [item for item in reversed(self.items) if item_type in (None, item.type)]
        found = None
        if index is not None:
            found = next((item for item in same if item.source_index == index), None)
        if found is None:
            # Another name in another place is another item, though nobody announced it.
            found = next((i for i in same if i.open and not (source and i.elsewhere(index))), None)
        if found is None and index is None and same:
            found = same[0]
        if found is not None and isinstance(source, str) and source:
            self._by_source[source] = found
        return found

    def _known(self, item: dict[str, Any]) -> Item | None:
        for name in (item.get("id"), item.get("call_id")):
            found = self._by_source.get(name) if isinstance(name, str) and name else None
            if found is not None and found.type == item["type"]:
                return found
        return None

    def _find(self, final: dict[str, Any], index: int | None) -> Item | None:
        """The item that `final` is the end of: by name, by place, or the one without an end."""
        found = self._known(final)
        if found is not None:
            return found
        same = [item for item in self.items if item.type == final["type"]]
        if index is not None:
            placed = next((item for item in same if item.source_index == index), None)
            if placed is not None:
                return placed
        endless = (item for item in same if item.final is None and not item.elsewhere(index))
        return next((item for item in endless if not item.contradicts(final)), None)

    def _match(self, finals: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Give each item without an end its final value; return what is not among our items.

        Names first, then the order within a type: some backends rename everything at the end.
        """
        pairs = {id(final): self._known(final) for final in finals}
        taken = {id(item) for item in pairs.values() if item is not None}
        left = []
        for final in finals:
            item = pairs[id(final)]
            if item is None:
                rest = (i for i in self.items if i.type == final["type"] and id(i) not in taken)
                item = next(rest, None)
            if item is None:
                left.append(final)
                continue
            taken.add(id(item))
            if item.final is None:
                item.close(self._emit, final, "") if not item.open else item.promise(final)
        return left

    # Waiting

    def _waits(self) -> bool:
        """A call is never cut by the next item: what comes meanwhile waits for its end."""
        return self._open is not None and self._open.call is not None

    def _gap(self, index: int | None) -> bool:
        ordered = self._profile.ordered_indices and not self._ending
        return ordered and index is not None and index > len(self.items)

    def _release(self) -> None:
        held, self._held = self._held, []
        for event in held:
            self.receive(event["type"], event)


_HANDLERS: dict[str, Callable[[Output, dict[str, Any]], None]] = {
    "response.output_item.added": Output._added,
    "response.output_item.done": Output._done,
    "response.content_part.added": Output._part_added,
    "response.content_part.done": Output._part_done,
    "response.reasoning_summary_part.added": Output._part_added,
    "response.reasoning_summary_part.done": Output._part_done,
    **dict.fromkeys(BY_DELTA, Output._delta),
    **dict.fromkeys(BY_DONE, Output._text_done),
}


def _is_item(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def _item(event: dict[str, Any]) -> dict[str, Any] | None:
    item = event.get("item")
    return item if isinstance(item, dict) and _is_item(item) else None


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _place(event: dict[str, Any]) -> int:
    return _integer(event.get("output_index")) or 0


def _relayed(event: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key not in _TRANSPORT_KEYS}
