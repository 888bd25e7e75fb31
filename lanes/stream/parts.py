"""The text-bearing parts of an output item, each with the events it goes through.

added -> delta* -> text done -> part done; calls have no part events around their text
(protocol.md 4, "strict stream").
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from lanes.codec import encode
from lanes.stream.item_schema import (
    readable_annotation,
    readable_annotations,
    readable_logprobs,
)
from lanes.surrogates import joined

if TYPE_CHECKING:
    from collections.abc import Callable

    #: Takes the bytes of one event's JSON object without its closing brace.
    #: Takes an event as JSON without its last brace, in pieces, so that none is copied to join it.
    Emit = Callable[..., object]

log = logging.getLogger("multilane.run")

#: Stands for half of a character whose other half never came.
_HALF = "\ufffd"


@dataclass(frozen=True, slots=True)
class PartKind:
    """One kind of streamed text: where it lives and what its events are called.

    Attributes:
        name: The part's `type`.
        item_type: The type of the items that have such parts.
        text_key: The key of the text in the part.
        delta: The type of the event that adds text.
        done: The type of the event that ends the text.
        added: The type of the event that opens the part; empty for the text of a call.
        part_done: The type of the event that closes the part; empty for the text of a call.
        index_key: The key of the part's place in its events; None for the text of a call.
    """

    name: str
    item_type: str
    text_key: str
    delta: str
    done: str
    added: str = ""
    part_done: str = ""
    index_key: str | None = None


def _content(name: str, item_type: str, text_key: str, stem: str) -> PartKind:
    added, done = "response.content_part.added", "response.content_part.done"
    delta, text_done = f"response.{stem}.delta", f"response.{stem}.done"
    return PartKind(name, item_type, text_key, delta, text_done, added, done, "content_index")


OUTPUT_TEXT = _content("output_text", "message", "text", "output_text")
REFUSAL = _content("refusal", "message", "refusal", "refusal")
REASONING = _content("reasoning_text", "reasoning", "text", "reasoning_text")
SUMMARY = PartKind(
    name="summary_text",
    item_type="reasoning",
    text_key="text",
    delta="response.reasoning_summary_text.delta",
    done="response.reasoning_summary_text.done",
    added="response.reasoning_summary_part.added",
    part_done="response.reasoning_summary_part.done",
    index_key="summary_index",
)
ARGUMENTS = PartKind(
    name="arguments",
    item_type="function_call",
    text_key="arguments",
    delta="response.function_call_arguments.delta",
    done="response.function_call_arguments.done",
)
CUSTOM_INPUT = PartKind(
    name="input",
    item_type="custom_tool_call",
    text_key="input",
    delta="response.custom_tool_call_input.delta",
    done="response.custom_tool_call_input.done",
)
KINDS = (OUTPUT_TEXT, REFUSAL, REASONING, SUMMARY, ARGUMENTS, CUSTOM_INPUT)
_BY_NAME = {kind.name: kind for kind in KINDS if kind.index_key is not None}
BY_DELTA = {kind.delta: kind for kind in KINDS}
BY_DONE = {kind.done: kind for kind in KINDS}
#: The types of items whose text follows their announcement, so that the announcement may be held.
STREAMED = frozenset(kind.item_type for kind in KINDS)
#: An event of our own converters: what is `kept` of an answer, to be sent later.
COLLECTED = "response.multilane.collected"
#: The types of events whose content stays; that of other events is there already, or passes.
GROWTH = frozenset(
    {COLLECTED, *BY_DELTA, *(kind.added for kind in KINDS), "response.output_text.annotation.added"}
)
#: The text that a whole call carries, by the type of its item.
CALL_KINDS = {kind.item_type: kind for kind in (ARGUMENTS, CUSTOM_INPUT)}
#: The keys of a delta that holds only text.
FLAT = frozenset(
    {"type", "delta", "item_id", "output_index", "content_index", "summary_index"}
    | {"sequence_number", "stream_id", "logprobs", "obfuscation"}
)


def kind_of(part: object) -> PartKind | None:
    """Return the kind of a part as a backend sent it; None for an unknown kind or no part."""
    name = part.get("type") if isinstance(part, dict) else None
    return _BY_NAME.get(name) if isinstance(name, str) else None


@dataclass(slots=True)
class Part:
    """One part of an item, open from its `added` event to its last `done`.

    Attributes:
        kind: What the part is.
        item_id: The item's id as the client knows it.
        output_index: The item's place in the output.
        index: The part's place in its item.
        source_index: The part's place in the backend's deltas.
        source_id: The item's name in the backend's deltas.
        extra: What the part holds besides its text and logprobs.
        trailer: What the text's `done` event says besides the text.
        pieces: The text that was sent, delta by delta.
        half: The first half of a character whose other half has not come yet.
        logprobs: The logprobs of the text that was sent.
        text_done: Whether the text's `done` event was sent.
        final: The JSON of the finished text, made once: several events have it.
        open: Whether the part may still get text.
        head: The JSON of a flat delta event up to the delta itself, made once.
        delta_type: The type of the part's deltas; here, and not only in `kind`, for the token path.
        index_key: The key of `source_index` in them, likewise.
    """

    kind: PartKind
    item_id: str
    output_index: int
    index: int
    source_index: int | None = None
    source_id: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    trailer: dict[str, Any] = field(default_factory=dict)
    pieces: list[str] = field(default_factory=list)
    half: str = ""
    logprobs: list[Any] = field(default_factory=list)
    text_done: bool = False
    final: bytes = b'""'
    open: bool = True
    head: bytes = b""
    delta_type: str = ""
    index_key: str | None = None

    def __post_init__(self) -> None:
        self.delta_type, self.index_key = self.kind.delta, self.kind.index_key
        event = {"type": self.kind.delta, **self._place()}
        if self.kind is OUTPUT_TEXT:
            event["logprobs"] = []
        self.head = encode(event)[:-1] + b',"delta":'

    @property
    def text(self) -> str:
        """The text sent so far."""
        return "".join(self.pieces)

    def start(self, emit: Emit) -> None:
        """Send the event that opens the part."""
        event = {"type": self.kind.added, **self._place(), "part": self.snapshot}
        emit(encode(event)[:-1])

    def delta(self, emit: Emit, event: dict[str, Any]) -> None:
        """Send a delta that is more than plain text: it has logprobs, other keys or halves."""
        text = event["delta"]
        if self.half or not text.isascii():
            text, self.half = joined(self.half, text)
            if not text:
                return
            event["delta"] = text
        self.pieces.append(text)
        if self.kind is OUTPUT_TEXT:
            event["logprobs"] = readable_logprobs(event.get("logprobs"))
            self.logprobs += event["logprobs"]
        emit(encode({**event, **self._place()})[:-1])

    def finish_text(self, emit: Emit, final: object = None) -> None:
        """Send what the deltas left out, then the `done` event of the text.

        Deltas that were sent stay: a final text that contradicts them is logged and ignored.
        """
        if self.text_done:
            return
        text = self.text
        if isinstance(final, dict | list) and self.kind.index_key is None:
            final = encode(final).decode()  # some backends forget that arguments are a string
        if self.half and not (isinstance(final, str) and final.startswith(text) and final != text):
            self.half, text = "", text + _HALF
            self.pieces.append(_HALF)
            emit(self.head + encode(_HALF))
        if isinstance(final, str) and final != text:
            if final.startswith(text):
                rest = final[len(text) :]
                self.pieces.append(rest)
                emit(self.head, encode(rest))
                text = final
            else:
                log.debug("final %s contradicts its deltas; deltas kept", self.kind.name)
        self.text_done = True
        self.pieces, self.final = [text] if text else [], encode(text)
        if self.kind is OUTPUT_TEXT:
            self.trailer["logprobs"] = self.logprobs
        head = encode({"type": self.kind.done, **self._place(), **self.trailer})
        emit(head[:-1], self._key, self.final)

    def close(self, emit: Emit, final: dict[str, Any] | None = None, status: object = None) -> None:
        """Send what is missing up to the end of the part.

        Args:
            emit: Takes the events.
            final: The backend's own end of it.
            status: `incomplete` if it was interrupted, which only a summary can say.
        """
        if not self.open:
            return
        if final is not None:
            self.adopt(final)
            self.finish_text(emit, final.get(self.kind.text_key))
        else:
            self.finish_text(emit)
        self.open = False
        cut = {"status": status} if status == "incomplete" and self.kind is SUMMARY else {}
        head = encode({"type": self.kind.part_done, **self._place(), **cut, "part": self._bare})
        emit(head[:-2], self._key, self.final, b"}")

    def adopt(self, final: dict[str, Any]) -> None:
        """Take over what a final part holds besides its text: annotations, logprobs, the rest."""
        own = {"type", self.kind.text_key, "logprobs", "annotations"}
        self.extra.update({key: value for key, value in final.items() if key not in own})
        if readable := readable_annotations(final.get("annotations")):
            self.extra["annotations"] = readable
        self.logprobs = readable_logprobs(final.get("logprobs")) or self.logprobs

    def annotate(self, event: dict[str, Any]) -> bool:
        """Keep the event's annotation and set its place; return False if it has none."""
        added = readable_annotation(event.get("annotation"))
        if added is not None:
            earlier = self.extra.setdefault("annotations", [])
            place = {"content_index": self.index, "annotation_index": len(earlier)}
            event |= {"annotation": added, **place}
            earlier.append(added)
        return added is not None

    @property
    def snapshot(self) -> dict[str, Any]:
        """The part as an object that holds the finished text."""
        return {**self._bare, self.kind.text_key: Raw(self.final)}

    @property
    def _bare(self) -> dict[str, Any]:
        """The part without its text."""
        part: dict[str, Any] = {"type": self.kind.name}
        if self.kind is OUTPUT_TEXT:
            part |= {"annotations": [], "logprobs": self.logprobs}
        return {**part, **self.extra}

    @property
    def _key(self) -> bytes:
        """The JSON of the key of its text, behind another key."""
        return b',"%b":' % self.kind.text_key.encode()

    def _place(self) -> dict[str, Any]:
        place: dict[str, Any] = {"item_id": self.item_id, "output_index": self.output_index}
        if self.kind.index_key is not None:
            place[self.kind.index_key] = self.index
        return place
