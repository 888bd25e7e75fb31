"""MACHINE: the chunks of one Chat Completions stream -> events of the Responses API (D22). Pure.

It writes only what the run needs to make the strict stream (protocol.md 4): which item each text
belongs to, where a call ends, how the answer ended. The run opens and closes items, numbers events
and makes ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.upstream.chat.chunks import (
    citations,
    holds_sealed,
    read,
    reasoning_of,
    response_of,
    text_of,
)
from gateway.upstream.chat.omissions import NOTICES
from gateway.upstream.chat.reasoning import Reasoning
from gateway.upstream.chat.stream_ends import (
    error_event,
    is_cut,
    is_fault,
    reported_error,
    terminal,
)
from gateway.upstream.chat.tool_calls import ChatCalls
from gateway.upstream.chat.tools import custom_names
from lanes.codec import check_depth, encode
from lanes.history.makers import Maker
from lanes.stream.snapshots import usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.upstream.chat.chunks import Chunk, Delta
    from lanes.ports import Event

_DONE = b"[DONE]"
_TEXT, _REFUSAL, _REASONING = "output_text", "refusal", "reasoning_text"
#: The item that each kind of text is part of.
_ITEMS = {_TEXT: "message", _REFUSAL: "message", _REASONING: "reasoning"}
_BARE: dict[str, dict[str, Any]] = {
    "message": {"type": "message", "role": "assistant"},
    "reasoning": {"type": "reasoning", "summary": []},
}


def converter(body: Mapping[str, Any], maker: Maker) -> ChatConverter:
    """Return what converts the answer to a create; the body's tools tell which calls are custom.

    `maker` is the backend, which the items that only it can read are marked with.
    """
    return ChatConverter(custom_names(body), maker)


class ChatConverter:
    """Implements gateway.upstream.converter.Converter for one answer."""

    def __init__(self, custom: frozenset[str] = frozenset(), maker: Maker | None = None) -> None:
        maker = maker or Maker("", "")
        self._out: list[Event] = []
        self._item_count = 0
        self._calls = ChatCalls(maker, custom, self)
        self._reasoning = Reasoning(maker)
        self._live = ""  # the kind of item whose text is flowing
        self._item_id = ""
        self._heads: dict[str, bytes] = {}  # the beginning of a delta event, by the kind of text
        self._head: bytes | None = None  # that of the text that is flowing
        self._streamed: set[str] = set()  # the kinds of text that were streamed
        self._begun = self._shown = self._ended = False
        self._whole = False  # whether the answer so far is one whole message
        self._finish: object = None
        self._usage: object = None
        self._tier: str | None = None

    def feed(self, events: list[Event]) -> list[Event]:
        """Convert the chunks of one read into events."""
        for name, data in events:
            chunk = read(data)
            head = self._head
            if head is not None and chunk is not None and (text := self._more(chunk)) is not None:
                # Nearly every chunk ends here: it holds more of the same text, and nothing else.
                self._out.append((None, head + encode(text) + b"}"))
                if chunk.usage:
                    self._note(chunk, chunk.usage)
            elif not self._ended:
                self._other(name, data, chunk)
        converted, self._out = self._out, []
        return converted

    def finish(self) -> list[Event]:
        """Return the last events: a finish_reason or one message make it whole without `[DONE]`."""
        if not self._ended and (self._finish is not None or (self._whole and self._calls.whole)):
            self._end()
        converted, self._out = self._out, []
        return converted

    def _more(self, chunk: Chunk) -> str | None:
        """Return the text of a chunk that only holds more of the flowing text, else None."""
        choices = chunk.choices
        if choices is None or len(choices) != 1 or chunk.error:
            return None
        choice = choices[0]
        if choice is None or choice.finish_reason or choice.index or choice.logprobs:
            return None
        delta = choice.delta
        if delta is None or choice.error or choice.usage:
            return None
        if delta.tool_calls or delta.refusal or delta.annotations or delta.function_call:
            return None
        text, other = delta.content, delta.reasoning_content or delta.reasoning
        if self._live == "reasoning":
            text, other = other, text
        if other or delta.thinking or delta.reasoning_text or holds_sealed(delta):
            return None
        return text if type(text) is str and text else None

    # Chunks with more than text

    def _other(self, name: str | None, data: bytes, chunk: Chunk | None) -> None:
        """Take any other chunk, an error, the end, or noise."""
        if data.strip() == _DONE:
            self._done()
            return
        try:
            check_depth(chunk, data)
            plain = chunk is not None and chunk.choices and not chunk.error and name != "error"
            error = None if plain else reported_error(name, data)
        except ValueError:
            chunk = error = None
        if error is not None:
            self._last(*error)
        elif chunk is None:
            self.put(data)  # the run reports what is wrong with it
        elif chunk.choices:
            self._chunk(chunk)
        else:
            self._note(chunk, chunk.usage)

    def _done(self) -> None:
        """Take `[DONE]`: the answer is whole, even without a finish_reason."""
        if self._finish is None and not (self._shown and self._calls.whole):
            self._last(None, _DONE)  # the run takes it for an end that came too early
            return
        if self._finish is None:
            NOTICES.warning("finish", "an answer ended by [DONE] without a finish_reason")
        self._end()

    def _chunk(self, chunk: Chunk) -> None:
        choice = next((one for one in chunk.choices or () if one and one.index in (0, None)), None)
        if choice is None:
            return
        if choice.error or is_fault(choice.finish_reason):
            text = f"The backend ended its answer: {choice.finish_reason}."
            self._last(None, encode(error_event(choice.error or text)))
            return
        self._whole = choice.message is not None and not self._begun
        self._begin(chunk)
        if choice.delta is not None:
            self._add(choice.delta, choice.logprobs)
        if choice.message is not None and (choice.delta is None or not self._shown):
            self._message(choice.message, whole=bool(choice.finish_reason))
        if choice.finish_reason and self._finish is None:
            self._finish = choice.finish_reason
            self._head = None
            self._calls.finish(cut=is_cut(choice.finish_reason))
        self._note(chunk, chunk.usage or choice.usage)

    def _note(self, chunk: Chunk, counts: object) -> None:
        """Keep what the terminal reports; after a finish_reason it waits for the usage."""
        if isinstance(chunk.service_tier, str):
            self._tier = chunk.service_tier
        if counts and isinstance(counts, dict):
            self._usage = counts
            if self._finish is not None:
                self._end()

    def _begin(self, chunk: Chunk) -> None:
        if not self._begun:
            self._begun = True
            self.send({"type": "response.created", "response": response_of(chunk)})

    def _end(self) -> None:
        self._calls.finish(cut=is_cut(self._finish))
        if self._reasoning.sealed:
            self._open("reasoning")
            self._close()
        response: dict[str, Any] = {"usage": usage(self._usage)}
        if self._tier is not None:
            response["service_tier"] = self._tier
        self._last(None, encode(terminal(self._finish, response)))

    def _last(self, name: str | None, data: bytes) -> None:
        """Send the last event."""
        self._ended, self._head = True, None
        self._out.append((name, data))

    # The parts of an answer

    def _add(self, delta: Delta, logprobs: object) -> None:
        """Take all that a delta holds; its reasoning comes before its text."""
        if reasoning := self._think(delta):
            self._flow(_REASONING, reasoning)
        if text := text_of(delta):
            tokens = logprobs.get("content") if isinstance(logprobs, dict) else None
            self._flow(_TEXT, text, tokens)
        if delta.refusal and isinstance(delta.refusal, str):
            self._flow(_REFUSAL, delta.refusal)
        for annotation in citations(delta):
            if self._live == "message":
                kind = "response.output_text.annotation.added"
                self.send({"type": kind, "item_id": self._item_id, "annotation": annotation})
        entries = delta.tool_calls if isinstance(delta.tool_calls, list) else []
        if isinstance(delta.function_call, dict):  # the form before tools: one call at most
            entries = [*entries, {"index": -1, "function": delta.function_call}]
        for entry in entries:
            self._calls.add(entry)

    def _message(self, message: Delta, *, whole: bool) -> None:
        """Take a `message` in the place of a delta; at the end it repeats what was streamed."""
        if not whole:
            self._add(message, None)
            return
        texts = (self._think(message), text_of(message), message.refusal)
        for kind, text in zip((_REASONING, _TEXT, _REFUSAL), texts, strict=True):
            if not isinstance(text, str) or not text:
                continue
            if kind in self._streamed and self._live != _ITEMS[kind]:
                continue
            self._open(_ITEMS[kind])
            key = "refusal" if kind is _REFUSAL else "text"
            self.send({"type": f"response.{kind}.done", "item_id": self._item_id, key: text})
        if isinstance(message.tool_calls, list):
            self._calls.add_whole(message.tool_calls)

    def _think(self, delta: Delta) -> str:
        """Return the text of a delta's reasoning, and keep what must go back with it."""
        key, text = reasoning_of(delta)
        if text:
            self._reasoning.came_as(key)
        if holds_sealed(delta):
            self._reasoning.keep(delta)
            if not self._live:
                self._open("reasoning")
        return text

    def _flow(self, kind: str, text: str, logprobs: object = None) -> None:
        """Send a piece of text."""
        self._open(_ITEMS[kind])
        head = self._heads.get(kind)
        if head is None:
            event = {"type": f"response.{kind}.delta", "item_id": self._item_id}
            head = self._heads[kind] = encode(event)[:-1] + b',"delta":'
            self._streamed.add(kind)
        if kind is not _REFUSAL:
            self._head = head
        tail = b',"logprobs":' + encode(logprobs) + b"}" if logprobs else b"}"
        self.put(head + encode(text) + tail)

    def _open(self, kind: str) -> None:
        """Make the item of that kind the one whose text is flowing."""
        if self._live == kind:
            return
        self._close()
        self._calls.pause()
        self._live, self._item_id = kind, self._name_item()
        item = {**_BARE[kind], "id": self._item_id}
        if kind == "reasoning":
            item |= self._reasoning.mark()
        self.send({"type": "response.output_item.added", "item": item})

    def _close(self) -> None:
        """Let what comes next be of another item."""
        if self._live == "reasoning" and self._reasoning.sealed:
            item = {**_BARE["reasoning"], "id": self._item_id, **self._reasoning.fields()}
            self.send({"type": "response.output_item.done", "item": item})
        self._live, self._head = "", None
        self._heads.clear()

    def name_call(self) -> str:
        """Return the id of a call's item, which begins now (see `CallWriter`)."""
        self._close()
        return self._name_item()

    def _name_item(self) -> str:
        self._item_count += 1
        self._shown = True
        return f"item_{self._item_count}"

    def send(self, event: dict[str, Any]) -> None:
        """Add an event."""
        self.put(encode(event))

    def put(self, data: bytes) -> None:
        """Add an event's JSON."""
        self._out.append((None, data))
