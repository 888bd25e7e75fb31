"""The repairs that the gateway makes to a backend's events, read off the events themselves. Pure.

It reads the events before the strict stream is made of them, by rules of its own, so that it does
not depend on the code that repairs (D24).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gateway.tools.check.event_fields import flaws, snapshot_flaws, usage_flaws
from lanes.codec import decode_lenient
from lanes.stream.item_index import integer
from lanes.stream.parts import BY_DELTA, BY_DONE, KINDS, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lanes.ports import Event
    from lanes.stream.parts import PartKind

#: Name -> the flaw, and the repair. The names are stable: `--json` prints them.
RULES: Final = {
    "converted": "events that come as chunks of Chat Completions: made into those of Responses",
    "done_marker": "[DONE] at the end: dropped",
    "keepalives": "events to keep the connection alive: dropped",
    "unreadable": "events that are no JSON object: the response fails",
    "untyped": "events without a type: the `event:` line has it",
    "no_numbers": "events without a sequence_number: numbered",
    "odd_numbers": "sequence numbers that do not begin at 0, jump or go back: numbered anew",
    "missing_ids": "events and items without an id: named",
    "changing_ids": "ids that change within an item: one id for each item",
    "changing_call_ids": "a call_id that changes: the first one stays",
    "no_created": "no response.created at the beginning: sent",
    "no_in_progress": "no response.in_progress: sent",
    "thin_snapshots": "response objects with keys missing: filled in from the request",
    "no_indices": "events without output_index or content_index: counted",
    "colliding_indices": "items in a place that is taken, or past a gap: put in order",
    "unannounced_items": "events of an item that was not opened: opened first",
    "open_items": "items still open when the next one begins: closed before it",
    "late_dones": "ends that come after the next item began: kept, not sent again",
    "filled_items": "items that are opened with their content: opened empty",
    "no_part_added": "parts that were not opened: opened",
    "no_deltas": "texts and arguments sent only at the end: sent as one delta",
    "empty_deltas": "deltas without text: dropped",
    "no_text_done": "texts and arguments without an end: ended",
    "no_part_done": "parts without an end: ended",
    "no_item_done": "items without an end: ended",
    "bare_errors": "errors that are no event of the protocol: response.failed",
    "no_terminal": "no terminal event: response.failed",
    "after_the_end": "events after the terminal one: dropped",
    "hidden_reason": "completed, with a reason for being incomplete: incomplete",
    "other_output": "a final output that is not what was streamed: made of what was",
    "no_usage": "no usage: null, never zeros",
    "thin_usage": "usage without its details: zeros",
    "thin_items": "items without status, role, summary or content: filled in",
    "no_logprobs": "text without logprobs: an empty list",
    "no_annotations": "text parts without annotations: an empty list",
    "nulls": "nulls and empty values for what is absent: left out",
    "unnamed_calls": "ends of arguments without the name: named",
    "private_keys": "keys of the backend's own: left out",
}
_TERMINALS: Final = frozenset(
    f"response.{end}" for end in ("completed", "incomplete", "failed", "cancelled")
)
_ADDED: Final = frozenset(kind.added for kind in KINDS if kind.added)
_PART_DONE: Final = frozenset(kind.part_done for kind in KINDS if kind.part_done)


def repairs(events: Iterable[Event]) -> Counter[str]:
    """Count how often the events of one answer need each repair of RULES."""
    reader = _Reader()
    for name, data in events:
        reader.read(name, data)
    reader.end()
    return reader.counts


@dataclass
class _Part:
    kind: PartKind
    added: bool = False
    deltas: bool = False
    text_done: bool = False
    done: bool = False


@dataclass
class _Item:
    type: str
    names: set[str]
    index: object
    call_id: object = None
    done: bool = False
    repeated: bool = False  # a done event has its whole text
    parts: dict[tuple[str, int | None], _Part] = field(default_factory=dict)


class _Reader:
    """Follows one answer and counts the repairs that it needs."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._items: list[_Item] = []
        self._seen: Counter[str] = Counter()
        self._number: int | None = None
        self._over = False

    def read(self, name: str | None, data: bytes) -> None:
        """Take one event."""
        if data.strip() == b"[DONE]":
            self.counts["done_marker"] += 1
            return
        try:
            event = decode_lenient(data)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            self.counts["unreadable"] += 1
            return
        if not isinstance(event.get("type"), str):
            self.counts["untyped"] += name is not None
            event = {**event, "type": name or ""}
        self._dispatch(event)

    def end(self) -> None:
        """Count what is still open at the end of the body."""
        self.counts["no_terminal"] += not self._over
        self.counts["no_in_progress"] += not self._seen["response.in_progress"]
        for item in self._items:
            self.counts["no_item_done"] += not item.done
            for part in item.parts.values():
                self.counts["no_text_done"] += not part.text_done
                self.counts["no_part_done"] += bool(part.kind.part_done) and not part.done
            silent = item.repeated and not any(part.deltas for part in item.parts.values())
            self.counts["no_deltas"] += silent
        self.counts = +self.counts

    def _dispatch(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        if kind == "error" or event.get("error") or event.get("error_type"):
            self.counts["bare_errors"] += 1
            self._over = True
        elif self._over:
            self.counts["after_the_end"] += 1
        elif not kind.startswith("response.") or kind.removeprefix("response.").startswith(
            ("keep", "ping")
        ):
            self.counts["keepalives"] += 1
            self._count(event.get("sequence_number"))
        else:
            self._follow(kind, event)

    def _follow(self, kind: str, event: dict[str, Any]) -> None:
        if not self._seen:
            self.counts["no_created"] += kind != "response.created"
        self._seen[kind] += 1
        self._count(event.get("sequence_number"))
        self.counts.update(flaws(event))
        if isinstance(response := event.get("response"), dict):
            self.counts.update(snapshot_flaws(response))
        if kind in _TERMINALS:
            self._terminal(event)
        elif kind == "response.output_item.added":
            self._item_added(event)
        elif kind == "response.output_item.done":
            self._item_done(event)
        elif kind in BY_DELTA or kind in BY_DONE or kind in _ADDED or kind in _PART_DONE:
            self._part_event(kind, event)

    def _count(self, number: object) -> None:
        if not isinstance(number, int):
            return
        expected = 0 if self._number is None else self._number + 1
        self.counts["odd_numbers"] += number != expected
        self._number = number

    def _item_added(self, event: dict[str, Any]) -> None:
        item = event.get("item")
        if not isinstance(item, dict):
            return
        self.counts["open_items"] += any(not one.done for one in self._items[-1:])
        index = event.get("output_index")
        if index is not None:
            self.counts["colliding_indices"] += index != len(self._items)
        self.counts["filled_items"] += bool(
            item.get("content") or item.get("arguments") or item.get("encrypted_content")
        )
        self._items.append(_Item(str(item.get("type")), _names(item), index, item.get("call_id")))

    def _item_done(self, event: dict[str, Any]) -> None:
        final = event.get("item")
        if not isinstance(final, dict):
            return
        item = self._find(_names(final), str(final.get("type")), event.get("output_index"))
        if item is None:
            self.counts["unannounced_items"] += 1
            item = _Item(str(final.get("type")), _names(final), event.get("output_index"))
            self._items.append(item)
        self._same(item, final.get("id"))
        self.counts["late_dones"] += item is not self._items[-1]
        changed = item.call_id is not None and final.get("call_id") != item.call_id
        self.counts["changing_call_ids"] += changed
        item.done = True
        item.repeated = bool(final.get("content") or final.get("summary") or final.get("arguments"))

    def _part_event(self, kind: str, event: dict[str, Any]) -> None:
        part_kind = BY_DELTA.get(kind) or BY_DONE.get(kind) or kind_of(event.get("part"))
        if part_kind is None:
            return
        name = event.get("item_id")
        names = {name} if isinstance(name, str) and name else set()
        item = self._find(names, part_kind.item_type, event.get("output_index"))
        if item is None:
            self.counts["unannounced_items"] += 1
            item = _Item(part_kind.item_type, names, event.get("output_index"))
            self._items.append(item)
        self._same(item, name)
        place = (part_kind.name, integer(event.get(part_kind.index_key or "")))
        part = item.parts.setdefault(place, _Part(part_kind))
        if kind in _ADDED:
            part.added = True
            return
        self.counts["no_part_added"] += bool(part_kind.added) and not part.added
        part.added = True
        self._flow(kind, part, item)

    def _flow(self, kind: str, part: _Part, item: _Item) -> None:
        if kind in BY_DELTA:
            part.deltas = True
            return
        self.counts["late_dones"] += item is not self._items[-1]
        item.repeated = True
        if kind in BY_DONE:
            part.text_done = True
        else:
            part.done = True

    def _same(self, item: _Item, name: object) -> None:
        """Add a name of the item, and count it as a change if the item had another."""
        if isinstance(name, str) and name and name not in item.names:
            self.counts["changing_ids"] += bool(item.names)
            item.names.add(name)

    def _find(self, names: set[str], kind: str, index: object) -> _Item | None:
        same = [one for one in reversed(self._items) if one.type == kind]
        named = next((one for one in same if one.names & names), None)
        if named is not None:
            return named
        placed = next((one for one in same if index is not None and one.index == index), None)
        return placed or next((one for one in same if not one.done), None)

    def _terminal(self, event: dict[str, Any]) -> None:
        self._over = True
        response = event.get("response")
        if not isinstance(response, dict):
            return
        if event["type"] not in ("response.completed", "response.incomplete"):
            return
        self.counts.update(usage_flaws(response.get("usage")))
        reason = response.get("incomplete_details")
        self.counts["hidden_reason"] += event["type"] == "response.completed" and bool(reason)
        output = response.get("output")
        finals = (
            [one for one in output if isinstance(one, dict)] if isinstance(output, list) else []
        )
        agrees = len(finals) == len(self._items) and all(
            item.type == final.get("type") and item.names & _names(final)
            for item, final in zip(self._items, finals, strict=True)
        )
        self.counts["other_output"] += not agrees


def _names(item: dict[str, Any]) -> set[str]:
    ids = (item.get("id"), item.get("call_id"))
    return {name for name in ids if isinstance(name, str) and name}
