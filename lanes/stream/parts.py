"""The text-bearing parts of an output item, each with the events it goes through.

added -> delta* -> text done -> part done; calls have no part events around their text
(protocol.md 4, "strict stream").
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lanes.codec import encode
from lanes.stream.item_schema import annotation, readable

if TYPE_CHECKING:
    from collections.abc import Callable

    #: Takes the bytes of one event's JSON object without its closing brace.
    Emit = Callable[[bytes], object]

log = logging.getLogger("multilane.run")

#: The least logprob the reference tells; serves for one that is none.
_FLOOR = -9999.0


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of streamed text: where it lives and what its events are called."""

    name: str
    item_type: str
    text_key: str
    delta: str
    done: str
    added: str = ""
    part_done: str = ""
    index_key: str | None = None


def _content(name: str, item_type: str, text_key: str, stem: str) -> Kind:
    added, done = "response.content_part.added", "response.content_part.done"
    delta, text_done = f"response.{stem}.delta", f"response.{stem}.done"
    return Kind(name, item_type, text_key, delta, text_done, added, done, "content_index")


OUTPUT_TEXT = _content("output_text", "message", "text", "output_text")
REFUSAL = _content("refusal", "message", "refusal", "refusal")
REASONING = _content("reasoning_text", "reasoning", "text", "reasoning_text")
SUMMARY = Kind(
    name="summary_text",
    item_type="reasoning",
    text_key="text",
    delta="response.reasoning_summary_text.delta",
    done="response.reasoning_summary_text.done",
    added="response.reasoning_summary_part.added",
    part_done="response.reasoning_summary_part.done",
    index_key="summary_index",
)
ARGUMENTS = Kind(
    name="arguments",
    item_type="function_call",
    text_key="arguments",
    delta="response.function_call_arguments.delta",
    done="response.function_call_arguments.done",
)
CUSTOM_INPUT = Kind(
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
#: The text that a whole call carries, by the type of its item.
CALL_KINDS = {kind.item_type: kind for kind in (ARGUMENTS, CUSTOM_INPUT)}


def kind_of(part: object) -> Kind | None:
    """The kind of a part as a backend sent it; None for what is not known or no part at all."""
    name = part.get("type") if isinstance(part, dict) else None
    return _BY_NAME.get(name) if isinstance(name, str) else None


@dataclass(slots=True)
class Part:
    """One part of an item, open from its `added` event to its last `done`.

    `head` is the beginning of each of its flat delta events, up to the delta itself, made once.
    `source_id` and `source_index` are what the backend calls the item and the part in its deltas;
    `trailer` is what the text's `done` event says besides the text.
    """

    kind: Kind
    item_id: str
    output_index: int
    index: int
    source_index: int | None = None
    source_id: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    trailer: dict[str, Any] = field(default_factory=dict)
    pieces: list[str] = field(default_factory=list)
    logprobs: list[Any] = field(default_factory=list)
    text_done: bool = False
    open: bool = True
    head: bytes = b""

    def __post_init__(self) -> None:
        event = {"type": self.kind.delta, **self._place()}
        if self.kind is OUTPUT_TEXT:
            event["logprobs"] = []
        self.head = encode(event)[:-1] + b',"delta":'

    @property
    def text(self) -> str:
        """All of the text sent so far."""
        return "".join(self.pieces)

    def start(self, emit: Emit) -> None:
        """Send the event that opens the part."""
        self._event(emit, self.kind.added, part=self.snapshot(""))

    def delta(self, emit: Emit, event: dict[str, Any]) -> None:
        """Send a delta that is more than plain text: logprobs or keys of the backend's own."""
        self.pieces.append(event["delta"])
        if self.kind is OUTPUT_TEXT:
            event["logprobs"] = _logprobs(event.get("logprobs"))
            self.logprobs += event["logprobs"]
        event.pop("obfuscation", None)
        emit(encode({**event, **self._place()})[:-1])

    def finish_text(self, emit: Emit, final: object = None) -> None:
        """Send the `done` event of the text, and before it what the deltas left out.

        The deltas are the truth once sent: a final text that contradicts them is logged and left.
        """
        if self.text_done:
            return
        text = self.text
        if isinstance(final, dict | list) and self.kind.index_key is None:
            final = encode(final).decode()  # some backends forget that arguments are a string
        if isinstance(final, str) and final != text:
            if final.startswith(text):
                rest = final[len(text) :]
                self.pieces.append(rest)
                emit(self.head + encode(rest))
                text = final
            else:
                log.debug("final %s contradicts its deltas; deltas kept", self.kind.name)
        self.text_done = True
        if self.kind is OUTPUT_TEXT:
            self.trailer["logprobs"] = self.logprobs
        self._event(emit, self.kind.done, **{self.kind.text_key: text}, **self.trailer)

    def close(self, emit: Emit, final: dict[str, Any] | None = None) -> None:
        """Send whatever is missing up to the end of the part. `final` is the backend's own."""
        if not self.open:
            return
        if final is not None:
            self.adopt(final)
            self.finish_text(emit, final.get(self.kind.text_key))
        else:
            self.finish_text(emit)
        self.open = False
        self._event(emit, self.kind.part_done, part=self.snapshot(self.text))

    def adopt(self, final: dict[str, Any]) -> None:
        """Take over what a final part knows beyond its text: annotations, logprobs, the rest."""
        known = {"type", self.kind.text_key, "logprobs", "annotations"}
        self.extra.update({key: value for key, value in final.items() if key not in known})
        if found := readable(final.get("annotations")):
            self.extra["annotations"] = found
        self.logprobs = _logprobs(final.get("logprobs")) or self.logprobs

    def annotate(self, event: dict[str, Any]) -> bool:
        """Keep the annotation that an event tells of, and place it; False if it tells of none."""
        told = annotation(event.get("annotation"))
        if told is not None:
            known = self.extra.setdefault("annotations", [])
            place = {"content_index": self.index, "annotation_index": len(known)}
            event |= {"annotation": told, **place}
            known.append(told)
        return told is not None

    def snapshot(self, text: str) -> dict[str, Any]:
        """The part as an object, holding `text`."""
        part: dict[str, Any] = {"type": self.kind.name, self.kind.text_key: text}
        if self.kind is OUTPUT_TEXT:
            part |= {"annotations": [], "logprobs": self.logprobs}
        return {**part, **self.extra}

    def _place(self) -> dict[str, Any]:
        place: dict[str, Any] = {"item_id": self.item_id, "output_index": self.output_index}
        if self.kind.index_key is not None:
            place[self.kind.index_key] = self.index
        return place

    def _event(self, emit: Emit, kind: str, **fields: Any) -> None:
        emit(encode({"type": kind, **self._place(), **fields})[:-1])


def _logprobs(told: object) -> list[dict[str, Any]]:
    """Logprobs as the official types have them, whatever a backend left out of theirs."""
    return [
        {
            **_logprob(one),
            "top_logprobs": [_logprob(top) for top in _objects(one.get("top_logprobs"))],
        }
        for one in _objects(told)
    ]


def _logprob(told: dict[str, Any]) -> dict[str, Any]:
    token, value, code = told.get("token"), told.get("logprob"), told.get("bytes")
    token = token if isinstance(token, str) else ""
    if type(value) not in (int, float):
        value = _FLOOR
    if not isinstance(code, list) or any(type(one) is not int for one in code):
        code = list(token.encode())
    return {**told, "token": token, "logprob": value, "bytes": code}


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
