"""MACHINE: the output of one response: items in order of first appearance, one open at a time.

Each backend orders and closes its items in its own way; what leaves here has every item opened
once and closed once (protocol.md 4). `item_states` has the states and the rules in words.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from lanes.codec import encode
from lanes.stream.held_events import HeldEvents
from lanes.stream.item_index import ItemIndex, integer, is_item, item_of, place
from lanes.stream.item_schema import PREFIXES, Seal
from lanes.stream.item_states import HoldState, ItemState, ItemStep
from lanes.stream.items import Item
from lanes.stream.parts import BY_DELTA, BY_DONE, CALL_KINDS, OUTPUT_TEXT, STREAMED, kind_of
from lanes.stream.passthrough import ITEM_EVENTS, tagged, with_client_ids, without_private_keys
from steering.required import required_input

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.stream.parts import Emit, Part, PartKind
    from lanes.stream.profile import Profile
    from lanes.stream.room import Room
    from lanes.stream.snapshots import Asked


class Output:
    """The items of one response, and the part that is live: the one whose deltas are flowing.

    Args:
        response_id: The id that the client knows.
        profile: How far the backend's stream can be trusted.
        emit: Takes each event for the client.
        mint: Makes an id from a prefix.
        room: How much output it may have.
        asked: What the client wants of it.
    """

    def __init__(
        self,
        response_id: str,
        profile: Profile,
        emit: Emit,
        mint: Callable[[str], str],
        room: Room,
        asked: Asked,
    ) -> None:
        self.live: Part | None = None
        self._id = response_id
        self._emit = self._say = emit  # `_say` is for the open item
        self._agent: object = None  # of the event that is being read
        self.profile = profile
        self._mint = mint
        self._room = room
        self._asked = asked
        self._index = ItemIndex()
        #: All items so far, in order.
        self.items = self._index.items
        self._open: Item | None = None
        self.held = HeldEvents()
        self._ending = False

    def owed(self) -> list[dict[str, Any]]:
        """Return stubs of the outputs that finished calls wait for and only the client can give."""
        return required_input((item.shown for item in self.items), self._asked.asynchronous)

    def receive(self, kind: str, event: dict[str, Any]) -> None:
        """Take one event about items: put known ones in order, pass others on with our ids."""
        event["type"] = kind
        unread = deque([event])
        while unread:
            self.live = None
            event = unread.popleft()
            self._agent = event.get("agent")
            if not self._asked.padded:
                event.pop("obfuscation", None)
            _BY_TYPE.get(event["type"], Output._other)(self, event)
            if self.held.freed:
                unread.extendleft(reversed(self._replay()))

    def can_stop(self) -> bool:
        """Return whether a cut here tears no call, tool or encrypted reasoning apart."""
        if self.held.unsafe or self.owed():
            return False
        return self._open is None or (self.profile.cuts_text and self._open.cuttable)

    def finish(self, finals: object, status: str) -> None:
        """End the output: close what is open and add what only the final `output` holds.

        `finals` is the backend's own list, if it sent one; it is believed for what was not
        streamed. `status` is the one of the item that is still open.
        """
        self.live = self._agent = None
        self._ending = True
        listed = [final for final in finals if is_item(final)] if isinstance(finals, list) else []
        self._index.adopt(listed)
        self._close_open(status)
        while self.held.state is not HoldState.EMPTY:
            self.held.free()
            held = self._replay()
            for event in sorted(held, key=lambda event: integer(event.get("output_index")) or 0):
                self.receive(event["type"], event)
            self._close_open(status)
        unmatched = self._index.adopt(listed)
        for final in unmatched:
            item = self._add(final, final.get("id"), None)
            # What comes after an item shows that it was not the one that was cut.
            item.finish(final)
            self._close_open(status if final is unmatched[-1] else "completed")

    def _added(self, event: dict[str, Any]) -> None:
        added, index = item_of(event), integer(event.get("output_index"))
        if added is None or self._index.sharing_name(added, index) is not None:
            return
        if self._waits(event):
            self._index.reserve(added)
        elif added["type"] in CALL_KINDS and not added.get("name"):
            # Nobody could answer it yet: it is shown once its end has the name.
            self._index.reserve(added)
        elif self._open is not None and self._open.announced_by(added, index):
            self._index.learn_names(self._open, added)
        elif self._open is not None and self._open.text and added["type"] in STREAMED:
            self._index.reserve(added)
            self.held.announce(event)
        else:
            self._add(added, added.get("id"), index)

    def _done(self, event: dict[str, Any]) -> None:
        final, index = item_of(event), integer(event.get("output_index"))
        if final is None:
            return
        item = self._index.ended_by(final, index)
        if item is None:
            if self._waits(event) or self._gap(event, index):
                self._index.reserve(final)
                return
            item = self._add(final, final.get("id"), index)
        elif item.state is ItemState.RESUMED:
            self.held.hold(event)
            return
        self._index.learn_names(item, final)
        item.finish(final)
        if item is self._open:
            self._close_open("completed")
            self.held.free()

    def _add(self, added: dict[str, Any], source_id: object, index: int | None) -> Item:
        """Open an item, closing the one before it."""
        self._close_open("completed")
        ids = self._mint(PREFIXES.get(added["type"], "item")), self._mint("call")
        trust, taken = self.profile, self._index.taken_call_id(added)
        seal = Seal(self._asked.encrypted and trust.seals_reasoning, trust.made_by, call_id=taken)
        item = Item(added, len(self.items), *ids, seal)
        self._index.add(item, added, source_id, index)
        agent = added.get("agent", self._agent)
        self._open, self._say = item, self._emit if agent is None else tagged(self._emit, agent)
        item.start(self._say)
        return item

    def _close_open(self, status: str) -> None:
        if self._open is not None:
            item, self._open = self._open, None
            item.close(self._say, status)
            room = self._room
            room.mark = room.left = min(room.left, room.mark - len(item.wire))

    def _replay(self) -> list[dict[str, Any]]:
        for item in self.items:
            if item.state is ItemState.RESUMED:
                item.step(ItemStep.RELEASE)
        return self.held.replay()

    def _part_added(self, event: dict[str, Any]) -> None:
        added = event.get("part")
        kind = kind_of(added)
        item = self._target(event, kind) if kind is not None else None
        if kind is None or item is None or not item.open:
            return
        index = place(event.get(kind.index_key or ""))
        part = item.part(kind, index)
        if part is None or not part.open or (index is None and part.pieces):
            item.open_part(kind, self._say, index, added)

    def _part_done(self, event: dict[str, Any]) -> None:
        final = event.get("part")
        kind = kind_of(final)
        part = self._part(event, kind) if kind is not None else None
        if part is not None:
            part.close(self._say, final, event.get("status"))

    def _delta(self, event: dict[str, Any]) -> None:
        kind = BY_DELTA[event["type"]]
        delta = event.get("delta")
        if not isinstance(delta, str) or not delta:
            return
        part = self._part(event, kind)
        if part is None or part.text_done:
            return
        part.source_id = source_id = event.get("item_id")
        self.held.continue_open()
        part.delta(self._emit, without_private_keys(event, self._id))
        if isinstance(source_id, str) and not (self._asked.padded or part.half):
            # The next delta of that name needs no search.
            self.live = part

    def _text_done(self, event: dict[str, Any]) -> None:
        kind = BY_DONE[event["type"]]
        part = self._part(event, kind)
        if part is not None:
            part.adopt({"logprobs": event.get("logprobs")})
            part.finish_text(self._say, event.get(kind.text_key))

    def _part(self, event: dict[str, Any], kind: PartKind) -> Part | None:
        """Return the part an event is about, opened if need be; None if it is late or held."""
        item = self._target(event, kind)
        if item is None or not item.open:
            return None
        if kind.index_key is None:
            return item.call
        index = (integer if event["type"] == kind.delta else place)(event.get(kind.index_key))
        part = item.part(kind, index)
        if part is None or (part.text_done and event["type"] == kind.delta):
            part = item.open_part(kind, self._say, index)
        part.source_index = index if part.source_index is None else part.source_index
        return part

    def _target(self, event: dict[str, Any], kind: PartKind) -> Item | None:
        """Return the item a part's event is about, a new one if none was announced; None if held.

        A call is never made up: without its name and call_id nobody could answer it.
        """
        item = self._index.target_of(event, kind.item_type)
        resumes = event["type"] == kind.delta
        if item is not None and (item.open or item.final is not None or not resumes):
            return item
        if self._waits(event):
            if item is not None:
                item.step(ItemStep.RESUME)
            return None
        if kind.item_type in CALL_KINDS:
            return item
        index = item.source_index if item is not None else integer(event.get("output_index"))
        return self._add({"type": kind.item_type}, event.get("item_id"), index)

    def _other(self, event: dict[str, Any]) -> None:
        sent = without_private_keys(event, self._id)
        needs_item = event["type"].startswith(ITEM_EVENTS)
        if needs_item or "item_id" in event or "output_index" in event:
            item = self._index.target_of(event, None)
            if item is None and self._waits(event):
                return
            if item is not None and item.open:
                sent |= {"item_id": item.id, "output_index": item.index}
            elif needs_item:
                return
            else:
                sent = {key: sent[key] for key in sent if key not in ("item_id", "output_index")}
        if event["type"] == "response.output_text.annotation.added" and not self._annotate(sent):
            return
        self._emit(encode(with_client_ids(sent, self._id, self._index))[:-1])

    def _annotate(self, sent: dict[str, Any]) -> bool:
        """Keep the annotation for the end of its part, if there is one it can belong to."""
        index = place(sent.get("content_index"))
        part = self._open.part(OUTPUT_TEXT, index) if self._open is not None else None
        return part is not None and part.open and part.annotate(sent)

    def _waits(self, event: dict[str, Any]) -> bool:
        """Hold an event behind a call, a tool at work or text; close the text once it is over."""
        if self._open is None or not (self._open.busy or self.held.behind_text):
            return False
        self.held.hold(event)
        if self.held.outlasted(blank=self._open.blank):
            self._close_open("completed")
            self.held.free()
        return True

    def _gap(self, event: dict[str, Any], index: int | None) -> bool:
        """Hold the end of an item that comes before its turn, where places can be trusted (D6)."""
        ordered = self.profile.ordered_indices and not self._ending
        early = ordered and index is not None and index > len(self.items)
        if early:
            self.held.hold(event)
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
