"""The output of one response: its items in order of first appearance, one open at a time.

Backends order and close their items each in their own way; what leaves here has every item opened
once and closed once (protocol.md 4).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from lanes.codec import encode
from lanes.stream.held_events import HeldEvents
from lanes.stream.item_index import ItemIndex, integer, is_item, item_of
from lanes.stream.items import PREFIXES, Item
from lanes.stream.parts import BY_DELTA, BY_DONE, CALL_KINDS, KINDS, OUTPUT_TEXT, kind_of
from lanes.stream.passthrough import ITEM_EVENTS, relayed, renamed
from steering.required import required_input

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.stream.parts import Emit, Kind, Part
    from lanes.stream.profile import Profile

#: Items whose text follows their announcement, so that this may wait for it.
_STREAMED = frozenset(kind.item_type for kind in KINDS)


class Output:
    """The items of one response, and the part that is live: the one whose deltas are flowing.

    `mint` makes an id from a prefix; `encrypted` says whether the client asked for encrypted
    reasoning.
    """

    def __init__(
        self,
        response_id: str,
        profile: Profile,
        emit: Emit,
        mint: Callable[[str], str],
        *,
        encrypted: bool,
    ) -> None:
        self.live: Part | None = None
        self._id = response_id
        self._emit = emit
        self.profile = profile
        self._mint = mint
        self._encrypted = encrypted
        self._roster = ItemIndex()
        self._open: Item | None = None
        self._waiting = HeldEvents()
        self._freed = False
        self._ending = False

    @property
    def items(self) -> list[Item]:
        """All items so far, in order."""
        return self._roster.items

    def owed(self) -> list[dict[str, Any]]:
        """Stubs of the outputs that finished calls wait for and only the client can give."""
        return required_input(item.shown for item in self.items)

    def receive(self, kind: str, event: dict[str, Any]) -> None:
        """Take one event about items: known ones are put in order, others pass with our ids."""
        event["type"] = kind
        queue = deque([event])
        while queue:
            self.live = None
            event = queue.popleft()
            _BY_TYPE.get(event["type"], Output._other)(self, event)
            if self._freed:
                self._freed = False
                queue.extendleft(reversed(self._waiting.take()))

    def can_stop(self) -> bool:
        """Whether this is a safe boundary: no call, tool or encrypted reasoning is torn apart."""
        if self._waiting.torn or self.owed():
            return False
        return self._open is None or (self.profile.cuts_text and self._open.cuttable)

    def finish(self, finals: object, status: str) -> None:
        """The response is over: close what is open and add what only the final `output` holds.

        `finals` is the backend's output list, believed for what was not streamed, if there is one.
        """
        self.live = None
        self._ending = True
        listed = [final for final in finals if is_item(final)] if isinstance(finals, list) else []
        self._match(listed)
        self._close_open(status)
        while self._waiting:
            held = self._waiting.take()
            for event in sorted(held, key=lambda event: integer(event.get("output_index")) or 0):
                self.receive(event["type"], event)
            self._close_open(status)
        left = self._match(listed)
        for final in left:
            item = self._add(final, final.get("id"), None)
            # What comes after an item shows that it was not the one that was cut.
            item.final = final
            self._close_open(status if final is left[-1] else "completed")

    def _added(self, event: dict[str, Any]) -> None:
        item, index = item_of(event), integer(event.get("output_index"))
        if item is None or self._roster.known(item) is not None:
            return
        if self._waits(event):
            self._roster.reserve(item)
        elif item["type"] in CALL_KINDS and not item.get("name"):
            # Nobody could answer it yet: it is shown once its end says what it calls.
            self._roster.reserve(item)
        elif self._open is not None and self._open.announced_by(item, index):
            self._roster.name(self._open, item)
        elif self._open is not None and self._open.text and item["type"] in _STREAMED:
            self._roster.reserve(item)
            self._waiting.announce(event)
        else:
            self._add(item, item.get("id"), index)

    def _done(self, event: dict[str, Any]) -> None:
        final, index = item_of(event), integer(event.get("output_index"))
        if final is None:
            return
        item = self._roster.find(final, index)
        if item is None:
            if self._waits(event) or self._gap(event, index):
                self._roster.reserve(final)
                return
            item = self._add(final, final.get("id"), index)
        elif item.index in self._waiting.resuming:
            self._waiting.hold(event)
            return
        self._roster.name(item, final)
        item.final = final
        item.close(self._emit, "completed")
        if item is self._open:
            self._open = None
            self._freed = True

    def _add(self, added: dict[str, Any], source_id: object, index: int | None) -> Item:
        """Open an item, closing the one before it: one at a time."""
        self._close_open("completed")
        prefix = PREFIXES.get(added["type"], "item")
        ids = self._mint(prefix), self._mint("call")
        encrypted = self._encrypted and self.profile.seals_reasoning
        item = Item(added, len(self.items), *ids, encrypted=encrypted)
        item.source_index = index
        self._roster.add(item, added, source_id)
        self._open = item
        item.start(self._emit)
        return item

    def _close_open(self, status: str) -> None:
        if self._open is not None:
            item, self._open = self._open, None
            item.close(self._emit, status)

    def _match(self, finals: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Give each item without an end its final value; return what is not among our items."""
        left = []
        for final, item in self._roster.match(finals):
            if item is None:
                left.append(final)
            elif item.final is None:
                item.final = final
        return left

    def _part_added(self, event: dict[str, Any]) -> None:
        known = event.get("part")
        kind = kind_of(known)
        item = self._target(event, kind) if kind is not None else None
        if kind is None or item is None or not item.open:
            return
        index = integer(event.get(kind.index_key or ""))
        part = item.part(kind, index)
        if part is None or not part.open or (index is None and part.pieces):
            item.open_part(kind, self._emit, index, known)

    def _part_done(self, event: dict[str, Any]) -> None:
        final = event.get("part")
        kind = kind_of(final)
        part = self._part(event, kind) if kind is not None else None
        if part is not None:
            part.close(self._emit, final)

    def _delta(self, event: dict[str, Any]) -> None:
        kind = BY_DELTA[event["type"]]
        delta = event.get("delta")
        if not isinstance(delta, str) or not delta:
            return
        part = self._part(event, kind)
        if part is None or part.text_done:
            return
        source_id = event.get("item_id")
        part.source_id = source_id
        self._waiting.went_on()
        part.delta(self._emit, relayed(event, self._id))
        if isinstance(source_id, str):
            # The next delta of that name needs no search.
            self.live = part

    def _text_done(self, event: dict[str, Any]) -> None:
        kind = BY_DONE[event["type"]]
        part = self._part(event, kind)
        if part is not None:
            part.adopt({"logprobs": event.get("logprobs")})
            part.finish_text(self._emit, event.get(kind.text_key))

    def _part(self, event: dict[str, Any], kind: Kind) -> Part | None:
        """The part an event is about, opened if need be; None if it comes too late or must wait."""
        item = self._target(event, kind)
        if item is None or not item.open:
            return None
        if kind.index_key is None:
            return item.call
        index = integer(event.get(kind.index_key))
        part = item.part(kind, index)
        if part is None or (part.text_done and event["type"] == kind.delta):
            part = item.open_part(kind, self._emit, index)
        return part

    def _target(self, event: dict[str, Any], kind: Kind) -> Item | None:
        """The item a part's event is about; a new one if none was announced.

        A call is never made up: without its name and call_id nobody could answer it.
        """
        item = self._roster.bound(event, kind.item_type)
        resumes = event["type"] == kind.delta
        if item is not None and (item.open or item.final is not None or not resumes):
            return item
        if self._waits(event):
            if item is not None:
                self._waiting.resuming.add(item.index)
            return None
        if kind.item_type in CALL_KINDS:
            return item
        index = item.source_index if item is not None else integer(event.get("output_index"))
        return self._add({"type": kind.item_type}, event.get("item_id"), index)

    def _other(self, event: dict[str, Any]) -> None:
        sent = relayed(event, self._id)
        known = event["type"].startswith(ITEM_EVENTS)
        if known or "item_id" in event or "output_index" in event:
            item = self._roster.bound(event, None)
            if item is None and self._waits(event):
                return
            if item is not None and item.open:
                sent |= {"item_id": item.id, "output_index": item.index}
            elif known:
                return
            else:
                sent = {key: sent[key] for key in sent if key not in ("item_id", "output_index")}
        if event["type"] == "response.output_text.annotation.added" and not self._annotate(sent):
            return
        self._emit(encode(renamed(sent, self._id, self._roster))[:-1])

    def _annotate(self, sent: dict[str, Any]) -> bool:
        """Keep the annotation for the end of its part, if there is one it can belong to."""
        index = integer(sent.get("content_index"))
        part = self._open.part(OUTPUT_TEXT, index) if self._open is not None else None
        return part is not None and part.open and part.annotate(sent)

    # Waiting

    def _waits(self, event: dict[str, Any]) -> bool:
        """Hold an event of a later item while a call, or a tool at work, is open.

        So it is behind text where both are written at once; where that text is over it is closed.
        """
        if self._open is None or not (self._open.busy or self._waiting.announced):
            return False
        self._waiting.hold(event)
        if not self._open.busy and self._waiting.in_vain(blank=self._open.blank):
            self._close_open("completed")
            self._freed = True
        return True

    def _gap(self, event: dict[str, Any], index: int | None) -> bool:
        """Hold the end of an item that comes before its turn, where places can be trusted."""
        ordered = self.profile.ordered_indices and not self._ending
        early = ordered and index is not None and index > len(self.items)
        if early:
            self._waiting.hold(event)
        return early


_BY_TYPE: dict[str, Callable[[Output, dict[str, Any]], None]] = {
    "response.output_item.added": Output._added,
    "response.output_item.done": Output._done,
    "response.content_part.added": Output._part_added,
    "response.content_part.done": Output._part_done,
    "response.reasoning_summary_part.added": Output._part_added,
    "response.reasoning_summary_part.done": Output._part_done,
    **dict.fromkeys(BY_DELTA, Output._delta),
    **dict.fromkeys(BY_DONE, Output._text_done),
}
