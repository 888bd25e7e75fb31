"""MACHINE: one output item, opened once, closed once and whole at its end (protocol.md 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Raw

from lanes.codec import encode
from lanes.errors import IllegalTransition
from lanes.history.entries import Entry
from lanes.history.makers import MADE_BY
from lanes.stream.item_schema import CUT_STATUS, RUNNING, Seal, needed_fields, public_fields
from lanes.stream.item_states import ITEM_TRANSITIONS, ItemState, ItemStep
from lanes.stream.part_texts import has_text, have_texts, with_texts
from lanes.stream.parts import CALL_KINDS, SUMMARY, Part, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lanes.stream.parts import Emit, PartKind


class Item:
    """An output item from its first sign to its end. `item_states` has its states.

    `wire` is the finished item as the client got it, in JSON; `final` is the backend's own, if it
    came; `source_index` is the place that the backend claims for it.

    Args:
        added: The backend's own form of the item as it was announced.
        index: Its place in the output.
        item_id: The id that the client gets.
        call_id: Serves a call that came without one.
        seal: What becomes of encrypted reasoning.
    """

    def __init__(
        self, added: dict[str, Any], index: int, item_id: str, call_id: str, seal: Seal
    ) -> None:
        self.id = item_id
        self.type: str = added["type"]
        self.index = index
        self.state = ItemState.OPEN
        self.open = True
        self.wire = b""
        self.source_index: int | None = None
        self.final: dict[str, Any] | None = None
        self.content: list[Part] = []
        self.summary: list[Part] = []
        self.call: Part | None = None
        self._seal = seal
        self._base = public_fields(self.type, added)
        # Only the end has it whole; the announcement shows that there is some.
        self._sealed = self.type == "reasoning" and bool(self._base.pop("encrypted_content", None))
        self._others: list[Any] = []
        self._shown: dict[str, Any] = {}
        self._call_given = self._cut = False
        self._made_up = added.keys() == {"type"}
        if self.type in CALL_KINDS:
            self._begin_call(call_id)

    def _begin_call(self, call_id: str) -> None:
        """`call_id` serves where the backend gave none or a taken one; it is never changed."""
        given = self._base.get("call_id")
        self._call_given = isinstance(given, str) and bool(given)
        if not self._call_given or self._seal.call_id:
            self._base["call_id"] = call_id
        if not isinstance(self._base.get("name"), str):
            self._base["name"] = ""
        self.call = Part(CALL_KINDS[self.type], self.id, self.index, 0)
        if self.type == "function_call":
            self.call.trailer = {"name": self._base["name"]}

    def start(self, emit: Emit) -> None:
        """Send `output_item.added`: an empty item, and no encrypted reasoning yet."""
        item = {**needed_fields(self.type), **self._base, "id": self.id}
        if self.type == "message":
            item |= {"status": "in_progress", "role": "assistant", "content": []}
        elif self.type == "reasoning":
            item["summary"] = []
            if "content" in item:
                item["content"] = []
        elif self.call is not None:
            item |= {"status": "in_progress", self.call.kind.text_key: ""}
        head = b'{"type":"response.output_item.added","output_index":%d,"item":'
        emit(head % self.index, encode(item))

    def part(self, kind: PartKind, source_index: int | None) -> Part | None:
        """Return the part that an event of this kind is about, if there is one yet."""
        for part in reversed(self.summary if kind is SUMMARY else self.content):
            there = source_index is None or part.source_index in (source_index, None)
            if there and part.kind is kind:
                return part
        return None

    def open_part(
        self,
        kind: PartKind,
        emit: Emit,
        source_index: int | None,
        added: dict[str, Any] | None = None,
    ) -> Part:
        """Open a new part, closing the one before it.

        Args:
            kind: What the part is.
            emit: Takes its events.
            source_index: The place that the backend claims for it in the item.
            added: The part as it was announced, if it was.
        """
        for part in self.content + self.summary:
            part.close(emit)
        line = self.summary if kind is SUMMARY else self.content
        part = Part(kind, self.id, self.index, len(line), source_index)
        if added is not None:
            part.adopt({**added, "logprobs": None})
        line.append(part)
        part.start(emit)
        return part

    def close(self, emit: Emit, status: str) -> None:
        """Send what is missing up to `output_item.done`, by the backend's `final` if it came.

        `status` holds where `final` has none, and always where it is `incomplete`. A `final` that
        comes for a closed item is for its replay alone: the client keeps the item it was sent.
        """
        if not self.open:
            return
        if self.final is not None:
            self._finish(self.summary, self.final.get("summary"), emit)
            self._finish(self.content, self.final.get("content"), emit)
        for part in self.content + self.summary:
            part.close(emit, status=status)
        if self.call is not None:
            self._close_call(self.call, emit)
        self.step(ItemStep.CLOSE if self.final is None else ItemStep.FINISH)
        self._shown = self._compose(status)
        self.wire = encode(self._shown)
        head = b'{"type":"response.output_item.done","output_index":%d,"item":'
        emit(head % self.index, self.wire)

    def finish(self, final: dict[str, Any]) -> None:
        """Take the backend's own end; an open item is still to be closed."""
        self.final = final
        if not self.open:
            self.step(ItemStep.FINISH)

    def step(self, step: ItemStep) -> None:
        """Move along `ITEM_TRANSITIONS`."""
        try:
            self.state = ITEM_TRANSITIONS[self.state, step]
        except KeyError:
            raise IllegalTransition(f"item {self.state}: {step}") from None
        self.open = self.state is ItemState.OPEN

    def replayable(self, *, plain_reasoning: bool) -> bool:
        """Return whether the backend can be given the item back.

        What was cut off cannot, but for text that was sent. Reasoning in the clear can only where
        `plain_reasoning` says that the backend takes it (D8).
        """
        if self.type == "reasoning" and not plain_reasoning:
            return bool((self.final or {}).get("encrypted_content"))
        return not self._cut

    def missed(self, final: dict[str, Any]) -> bool:
        """Return whether this item was closed before any of the text in `final` was sent."""
        if self.open or self.final is not None or self.call is not None:
            return False
        return has_text(final) and self.blank

    @property
    def busy(self) -> bool:
        """Whether a call or a hosted tool is still at work: it must not be cut by the next item."""
        return self.call is not None or (not self.text and self._base.get("status") in RUNNING)

    @property
    def text(self) -> bool:
        """Whether it is all text: a message or reasoning."""
        return self.type in ("message", "reasoning")

    @property
    def blank(self) -> bool:
        """Whether none of its text was sent."""
        return not any(part.pieces for part in self.content + self.summary)

    @property
    def cuttable(self) -> bool:
        """Whether it may stop in the middle: plain text, and reasoning in the clear."""
        return self.type == "message" or (self.type == "reasoning" and not self._sealed)

    @property
    def shown(self) -> Mapping[str, Any]:
        """The item as the client got it at its end; empty while it is open."""
        return self._shown

    def announced_by(self, added: dict[str, Any], index: int | None) -> bool:
        """Return whether `added` announces this item, late or once more; `index` is its place."""
        named = added.get("id") or added.get("call_id")
        expected = self._made_up or (self.blank and self.call is None and not named)
        late = expected and self.type == added["type"] and not self.elsewhere(index)
        self._made_up = self._made_up and not late
        return late

    def elsewhere(self, source_index: int | None) -> bool:
        """Return whether the backend has put this item in another place than `source_index`."""
        return None not in (source_index, self.source_index) and self.source_index != source_index

    @property
    def call_id(self) -> object:
        """The id of a call, as the client got it."""
        return self._base.get("call_id")

    def contradicts(self, final: dict[str, Any]) -> bool:
        """Return whether `final` is another call: both have a call_id of the backend's."""
        return self.call is not None and bool(self._call_given and final.get("call_id"))

    def _close_call(self, call: Part, emit: Emit) -> None:
        call.finish_text(emit, (self.final or {}).get(call.kind.text_key))
        call.open = False

    def _finish(self, line: list[Part], finals: object, emit: Emit) -> None:
        """Bring the parts of one line to what the finished item says they are."""
        if not isinstance(finals, list):
            return
        seen = 0
        for final in finals:
            kind = kind_of(final)
            misplaced = (kind is SUMMARY) is not (line is self.summary)
            if kind is None or kind.item_type != self.type or misplaced:
                unknown = kind is None and isinstance(final, dict)
                self._others += [final] if unknown and isinstance(final.get("type"), str) else []
                continue
            if seen == len(line):
                self.open_part(kind, emit, None, final)
            line[seen].close(emit, final if line[seen].kind is kind else None)
            seen += 1

    def _compose(self, status: str) -> dict[str, Any]:
        """Return the finished item: the backend's fields, our id, the text that was really sent."""
        fields = public_fields(self.type, self.final or {})
        item = {**needed_fields(self.type), **self._base, **fields}
        # Whose call it is never changes once it was sent.
        item |= {key: self._base[key] for key in ("call_id", "name") if key in self._base}
        item |= {"id": self.id, "type": self.type}
        if self.type == "message":
            content = [part.snapshot for part in self.content] + self._others
            item |= {"role": "assistant", "content": content, "status": self._status(status)}
        elif self.type == "reasoning":
            self._compose_reasoning(item, status)
        elif self.call is not None:
            item[self.call.kind.text_key] = Raw(self.call.final)
            item["status"] = self._status(status)
        elif item.get("status") in RUNNING:
            cut = CUT_STATUS.get(self.type, "incomplete")
            item["status"] = "completed" if status == "completed" else cut
        if self.type == "reasoning" or MADE_BY in item or self._seal.call_id:
            self._seal.show(item)
        self._cut = self._is_cut(item, status)
        return item

    def _is_cut(self, item: dict[str, Any], status: str) -> bool:
        """Return whether the item was cut off so early that nobody can use it."""
        if self.type == "message":
            content = self._others or any(part.pieces for part in self.content)
            return not content and (self.final is None or item["status"] == "incomplete")
        if self.call is not None:
            return bool(item["status"] == "incomplete")
        return self.type != "reasoning" and self.final is None and status != "completed"

    def _status(self, status: str) -> str:
        own = (self.final or {}).get("status")
        return own if own in ("completed", "incomplete") and status == "completed" else status

    def _compose_reasoning(self, item: dict[str, Any], status: str) -> None:
        item["summary"] = [part.snapshot for part in self.summary]
        if self.content or "content" in item:
            item["content"] = [part.snapshot for part in self.content]
        if "status" in item or status == "incomplete":
            item["status"] = self._status(status)

    def entry(self) -> Entry:
        """Return the item for the history: the client's names, and what the backend gets back.

        That is the backend's own finished item, value for value, if its text is what was sent (D7).
        """
        final = self.final
        if final is None or not self._agrees(final):
            return Entry.of(self._shown, self.wire)
        said = with_texts(self.call, self.content, self.summary, final)
        return Entry.of(self._shown, encode(self._seal.marked(said)))

    def _agrees(self, final: dict[str, Any]) -> bool:
        if self.call is not None:
            same_text = final.get(self.call.kind.text_key) == self.call.text
            return same_text and final.get("call_id") == self._base["call_id"]
        return have_texts(self.content, self.summary, final)
