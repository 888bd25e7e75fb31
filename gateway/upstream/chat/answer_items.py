"""The items of one Chat Completions answer, written as events that the run understands. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.upstream.chat.chunks import citations, holds_sealed, images_of, reasoning_of, text_of
from gateway.upstream.chat.reasoning import Reasoning
from gateway.upstream.chat.think_tags import ThinkTags, begins_with_tag
from gateway.upstream.chat.tool_calls import ChatCalls
from lanes.codec import encode
from lanes.surrogates import encode_halves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.upstream.chat.chunks import Delta
    from gateway.upstream.chat.tool_names import ToolNames
    from lanes.history.makers import Maker
    from lanes.ports import Event

_TEXT, _REFUSAL, _REASONING = "output_text", "refusal", "reasoning_text"
#: The item that each kind of text is part of.
_ITEMS = {_TEXT: "message", _REFUSAL: "message", _REASONING: "reasoning"}
_ADDED: Final = "response.output_item.added"
_BARE: dict[str, dict[str, Any]] = {
    "message": {"type": "message", "role": "assistant"},
    "reasoning": {"type": "reasoning", "summary": []},
}


class AnswerItems:
    """Writes which item each text belongs to, and where a call ends.

    `out` takes the events. `live` is the kind of item whose text is flowing, and `head` the
    beginning of an event with more of that text, where a chunk may hold nothing else.

    Args:
        names: The tools of the request.
        maker: The backend.
        tags: Whether its text may begin with reasoning (see `Profile.reasoning_tags`).
        history: The input of the request, each item as JSON.
    """

    def __init__(
        self, names: ToolNames, maker: Maker, tags: str, history: Sequence[bytes] = ()
    ) -> None:
        self.out: list[Event] = []
        self.live = ""
        self.head: bytes | None = None
        self.calls = ChatCalls(maker, names, self, history)
        #: The choices that have said something.
        self.said: set[int] = set()
        self._reasoning = Reasoning(maker)
        self._count = 0
        self._item_id = ""
        self._choice = 0  # the one whose text is flowing
        self._heads: dict[str, bytes] = {}  # the beginning of a delta event, by the kind of text
        self._streamed: set[tuple[int, str]] = set()  # the kinds of text that each choice streamed
        self._old_form = False
        self._mirrors = False  # whether the text repeats the reasoning, between tags
        self._drawn: set[str] = set()
        opened, held = tags == "opened", tags == "held"
        self._tags = None if tags == "off" else ThinkTags(opened=opened, held=held)

    def add(self, delta: Delta, choice: int = 0, logprobs: object = None) -> None:
        """Take all that a delta holds; its reasoning comes before its text.

        Args:
            delta: What came.
            choice: The index of its choice.
            logprobs: Those of its text.
        """
        if choice != self._choice:
            self._close()
            self._choice = choice
        if reasoning := self._think(delta):
            self._mirrors = self._mirrors or begins_with_tag(text_of(delta))
            if not self._mirrors:
                self._decide()  # its server parts it from the text
            self._flow(_REASONING, reasoning)
        if text := text_of(delta):
            tokens = logprobs.get("content") if isinstance(logprobs, dict) else None
            if self._tags is None:
                self._flow(_TEXT, text, tokens)
            else:
                self._part(self._tags, text, tokens)
        if self._tags is not None and (delta.tool_calls or delta.function_call or delta.refusal):
            self._decide()
        if delta.refusal and isinstance(delta.refusal, str):
            self._flow(_REFUSAL, delta.refusal)
        self._cite(delta)
        self._draw(delta)
        self._call(delta)

    def _cite(self, delta: Delta) -> None:
        """Take the annotations of the text."""
        for annotation in citations(delta):
            if self.live == "message":
                kind = "response.output_text.annotation.added"
                self.send({"type": kind, "item_id": self._item_id, "annotation": annotation})

    def _draw(self, delta: Delta) -> None:
        """Take the images of a delta: what is not in the answer itself can only be linked to."""
        for url in images_of(delta):
            if url in self._drawn:
                continue
            self._drawn.add(url)
            head, _, data = url.partition(";base64,")
            if not (data and head.startswith("data:image/")):
                self._decide()
                self._flow(_TEXT, f"![image]({url})")
                continue
            self._close()
            self.calls.pause()
            item = {"type": "image_generation_call", "id": self._name_item()}
            self.send({"type": _ADDED, "item": {**item, "status": "in_progress"}})
            drawn = {"status": "completed", "result": data}
            drawn["output_format"] = head.removeprefix("data:image/")
            self.send({"type": "response.output_item.done", "item": {**item, **drawn}})

    def _part(self, tags: ThinkTags, text: str, logprobs: object) -> None:
        """Take text that may begin with reasoning between tags."""
        for thought, piece in tags.feed(text):
            if thought and self._mirrors:
                continue
            tokens = None if thought or piece != text else logprobs
            self._flow(_REASONING if thought else _TEXT, piece, tokens)
        if tags.decided:
            self._tags = None

    def _decide(self) -> None:
        """Take the rest of such text: no tag comes any more."""
        tags, self._tags = self._tags, None
        for thought, piece in () if tags is None else tags.finish():
            if not (thought and self._mirrors):
                self._flow(_REASONING if thought else _TEXT, piece)

    def _call(self, delta: Delta) -> None:
        """Take the calls in a delta: `tool_calls`, or one call in the form before these."""
        if isinstance(delta.tool_calls, list | dict) and delta.tool_calls:
            self.said.add(self._choice)
            self.calls.add(delta.tool_calls, self._choice)
        elif isinstance(delta.function_call, dict):
            self._old_form = self._old_form or not self.calls.any
            if self._old_form:
                self.calls.add([{"index": -1, "function": delta.function_call}], self._choice)

    def add_whole(self, message: Delta, choice: int = 0) -> None:
        """Take the whole `message` of a choice, which repeats what was streamed."""
        if choice != self._choice:
            self._close()
            self._choice = choice
        fresh, thought, text = not self.said, self._think(message), text_of(message)
        if thought:
            self._decide()  # its server parts it from the text
        if text and fresh and self._tags is not None:
            self._part(self._tags, text, None)
            text = ""
        self._decide()
        texts = (thought, text, message.refusal)
        for kind, text in zip((_REASONING, _TEXT, _REFUSAL), texts, strict=True):
            if not isinstance(text, str) or not text:
                continue
            if (choice, kind) in self._streamed and self.live != _ITEMS[kind]:
                continue
            self._open(_ITEMS[kind])
            key = "refusal" if kind is _REFUSAL else "text"
            self.send({"type": f"response.{kind}.done", "item_id": self._item_id, key: text})
        self._draw(message)
        if isinstance(message.tool_calls, list | dict):
            self.calls.add_whole(message.tool_calls, choice)

    def _think(self, delta: Delta) -> str:
        """Return the text of a delta's reasoning, and keep what must go back with it."""
        key, text = reasoning_of(delta)
        if text and delta.reasoning_details:
            text = self._reasoning.fresh(delta, text)
        if text:
            self._reasoning.came_as(key)
        if holds_sealed(delta):
            self._reasoning.keep(delta)
            if not self.live:
                self._open("reasoning")
        return text

    def _flow(self, kind: str, text: str, logprobs: object = None) -> None:
        """Send a piece of text."""
        self._open(_ITEMS[kind])
        head = self._heads.get(kind)
        if head is None:
            event = {"type": f"response.{kind}.delta", "item_id": self._item_id}
            head = self._heads[kind] = encode(event)[:-1] + b',"delta":'
            self._streamed.add((self._choice, kind))
        if kind is not _REFUSAL and self._choice == 0:
            self.head = head
        tail = b',"logprobs":' + encode(logprobs) + b"}" if logprobs else b"}"
        self.put(head + encode_halves(text) + tail)

    def _open(self, kind: str) -> None:
        """Make the item of that kind the one whose text is flowing."""
        if self.live == kind:
            return
        self._close()
        self.calls.pause()
        self.live, self._item_id = kind, self._name_item()
        item = {**_BARE[kind], "id": self._item_id}
        if kind == "reasoning":
            item |= self._reasoning.mark()
        self.send({"type": _ADDED, "item": item})

    def break_off(self) -> None:
        """Write what was held back for a tag, because the body ends before the answer does."""
        self._decide()

    def end(self, *, cut: bool) -> None:
        """Write what no item has shown yet, except for a call torn apart by a `cut`."""
        tags, self._tags = self._tags, None
        if tags is not None:
            self._end_text(tags, cut=cut)
        self.calls.finish(cut=cut)
        if self._reasoning.sealed:
            self._open("reasoning")
            self._close()

    def _end_text(self, tags: ThinkTags, *, cut: bool) -> None:
        """Take the rest of the text at the end of the answer, which a tag was awaited in."""
        answered = not cut and not self.calls.any
        for thought, piece in tags.finish(answered=answered):
            if not (thought and self._mirrors):
                self._flow(_REASONING if thought else _TEXT, piece)
        if answered and (text := tags.whole_text()):
            self._flow(_TEXT, text)

    def _close(self) -> None:
        """Let what comes next be of another item."""
        if self.live == "reasoning" and self._reasoning.sealed:
            item = {**_BARE["reasoning"], "id": self._item_id, **self._reasoning.fields()}
            self.send({"type": "response.output_item.done", "item": item})
        self.live, self.head = "", None
        self._heads.clear()

    def name_call(self) -> str:
        """Return the id of a call's item, which begins now (see `CallWriter`)."""
        self._close()
        return self._name_item()

    def _name_item(self) -> str:
        self._count += 1
        self.said.add(self._choice)
        return f"item_{self._count}"

    def send(self, event: dict[str, Any]) -> None:
        """Add an event."""
        self.put(encode_halves(event))

    def put(self, data: bytes) -> None:
        """Add an event's JSON."""
        self.out.append((None, data))
