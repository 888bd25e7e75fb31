"""MACHINE: the chunks of one Chat Completions stream -> events of the Responses API (D22). Pure.

It writes only what the run needs to make the strict stream (protocol.md 4): which item each text
belongs to, where a call ends, how the answer ended. The run opens and closes items, numbers events
and makes ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.upstream.chat.answer_items import AnswerItems
from gateway.upstream.chat.chunks import Delta, counts_of, decode, place, repaired, response_of
from gateway.upstream.chat.omissions import NOTICES
from gateway.upstream.chat.stream_ends import (
    Finishes,
    failure,
    is_cut,
    reported_error,
    terminal,
)
from gateway.upstream.chat.tool_names import NO_NAMES
from gateway.upstream.chat.tools import tool_names
from lanes.codec import check_depth, decode_lenient, encode
from lanes.history.makers import Maker
from lanes.stream.passthrough import TERMINALS
from lanes.stream.token_usage import tells_tokens, usage
from lanes.stream.upstream_events import ERROR, meanings, unwrapped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gateway.upstream.chat.chunks import Choice, Chunk
    from gateway.upstream.chat.tool_names import ToolNames
    from lanes.ports import Event
    from lanes.stream.profile import Profile

_DONE = b"[DONE]"


def converter(
    body: Mapping[str, Any], maker: Maker, profile: Profile, history: Sequence[bytes] = ()
) -> ChatConverter:
    """Return what converts the answer to a create.

    Args:
        body: The create. Its tools tell the calls apart. Where it asks for several answers (`n`),
            only the first counts; else several choices are parts of one.
        maker: The backend, which the items that only it can read are marked with.
        profile: What is known about the backend's text.
        history: The whole effective input, each item as JSON.
    """
    several, tags = body.get("n") not in (None, 1), profile.reasoning_tags
    return ChatConverter(tool_names(body), maker, history, first_only=several, tags=tags)


class ChatConverter:
    """Implements gateway.upstream.converter.Converter for one answer.

    Args:
        names: The tools of the request.
        maker: The backend.
        history: The input of the request, each item as JSON.
        first_only: Whether choices are alternatives, of which the first one counts.
        tags: See `Profile.reasoning_tags`.
    """

    def __init__(
        self,
        names: ToolNames = NO_NAMES,
        maker: Maker | None = None,
        history: Sequence[bytes] = (),
        *,
        first_only: bool = False,
        tags: str = "auto",
    ) -> None:
        self._items = AnswerItems(names, maker or Maker("", ""), tags, history)
        self._first_only = first_only
        #: Whether the answer is over, as far as it says: only its usage may still come.
        self.ending = False
        self._begun = self._ended = False
        self._whole = False  # whether the answer so far is one whole message
        self._finishes = Finishes()
        self._usage: object = None
        self._tier: str | None = None

    def feed(self, events: list[Event]) -> list[Event]:
        """Convert the chunks of one read into events."""
        items = self._items
        for name, data in events:
            head = items.head
            try:
                chunk: Chunk | None = decode(data)
            except (ValueError, RecursionError):
                chunk, head = repaired(data), None
            if head is not None and chunk is not None and (text := self._more(chunk)) is not None:
                # Nearly every chunk ends here: it holds more of the same text, and nothing else.
                items.out.append((None, head + encode(text) + b"}"))
                if chunk.usage:
                    self._note(chunk)
            elif not self._ended:
                self._other(name, data, chunk)
        converted, items.out = items.out, []
        return converted

    def finish(self) -> list[Event]:
        """Return the last events: a finish_reason or one message make it whole without `[DONE]`."""
        items, finishes = self._items, self._finishes
        finished = finishes.all or ((finishes.any or self._whole) and items.calls.whole)
        if finished and not self._ended:
            self._end()
        elif not self._ended:
            items.break_off()
        converted, items.out = items.out, []
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
        if self._items.live == "reasoning":
            text, other = other, text
        if other or delta.thinking or delta.reasoning_text or delta.thinking_blocks or delta.images:
            return None
        if delta.reasoning_details or delta.extra_content or delta.provider_specific_fields:
            return None
        return text if type(text) is str and text and not delta.reasoning_opaque else None

    # Chunks with more than text

    def _other(self, name: str | None, data: bytes, chunk: Chunk | None) -> None:
        """Take any other chunk, an error, the end, or noise."""
        if data.strip() == _DONE:
            self._done()
            return
        try:
            check_depth(chunk, data)
            if chunk is not None and chunk.choices is None and not chunk.error:
                data, chunk = _unwrapped(data, chunk)
            plain = chunk is not None and chunk.choices and not chunk.error and name != "error"
            error = None if plain else reported_error(name, data)
        except ValueError:
            chunk = error = None
        if error is not None:
            self._last(*error)
        elif chunk is None and self._finishes.any:
            NOTICES.warning("torn", "an unreadable chunk after the finish_reason; left out")
        elif chunk is None:
            self._items.put(data)  # the run reports what is wrong with it
        elif chunk.choices is None and not self._begun and (kinds := _kinds(name, data)):
            # It answers in the form of the Responses API, which the run reads itself.
            self._items.out.append((name, data))
            self._ended = not TERMINALS.isdisjoint(kinds)
        else:
            self._chunk(chunk)

    def _done(self) -> None:
        """Take `[DONE]`: the answer is whole, even without a finish_reason."""
        items = self._items
        if not (self._finishes.any or (items.said and items.calls.whole)):
            self._last(None, _DONE)  # the run takes it for an end that came too early
            return
        if not self._finishes.any:
            NOTICES.warning("finish", "an answer ended by [DONE] without a finish_reason")
        self._end()

    def _chunk(self, chunk: Chunk) -> None:
        """Take the choices of a chunk, then what it tells beside them."""
        finished, before = self._finishes.all, len(self._items.out)
        fresh = not self._begun
        for choice in chunk.choices or ():
            if choice is None or (self._first_only and place(choice)):
                continue
            if (error := failure(choice)) is not None:
                self._last(None, encode(error))
                return
            self._begin(chunk)
            self._whole = fresh and choice.message is not None
            self._choice(choice, place(choice))
        self._note(chunk)
        if finished and usage(self._usage) is not None and len(self._items.out) == before:
            self._end()  # nothing but the usage could still come

    def _choice(self, choice: Choice, index: int) -> None:
        """Take one of the parts of the answer that a chunk holds."""
        items, finishes = self._items, self._finishes
        finished = finishes.says(choice.finish_reason)
        if choice.delta is not None:
            items.add(choice.delta, index, choice.logprobs)
        elif choice.message is None and isinstance(choice.text, str):  # as in plain completions
            items.add(Delta(content=choice.text), index)
        if choice.message is not None and (choice.delta is None or index not in items.said):
            if finished:
                items.add_whole(choice.message, index)
            else:
                items.add(choice.message, index)
        if finished or index in items.said:
            finishes.begin(index)
        if finished:
            finishes.finish(index, choice.finish_reason)
            items.head = None
            items.calls.pause()
        self.ending = finishes.all

    def _note(self, chunk: Chunk) -> None:
        """Keep what the terminal reports."""
        if isinstance(chunk.service_tier, str):
            self._tier = chunk.service_tier
        counts = counts_of(chunk)
        if not counts:
            return
        read = counts.get("prompt_tokens")  # some servers tell it in every chunk
        if self._usage is None or (type(read) is int and read) or tells_tokens(counts):
            self._usage = counts

    def _begin(self, chunk: Chunk) -> None:
        if not self._begun:
            self._begun = True
            self._items.send({"type": "response.created", "response": response_of(chunk)})

    def _end(self) -> None:
        reason = self._finishes.reason
        self._items.end(cut=is_cut(reason))
        response: dict[str, Any] = {"usage": usage(self._usage)}
        if self._tier is not None:
            response["service_tier"] = self._tier
        self._last(None, encode(terminal(reason, response)))

    def _last(self, name: str | None, data: bytes) -> None:
        """Send the last event."""
        self._ended, self.ending, self._items.head = True, False, None
        self._items.out.append((name, data))


def _unwrapped(data: bytes, chunk: Chunk) -> tuple[bytes, Chunk | None]:
    """Return the chunk, or the whole answer, that a proxy has put into an object of its own.

    Raises ValueError if it is nested too deep.
    """
    value = decode_lenient(data)
    check_depth(value, data)
    inner = unwrapped(value)
    if inner is None:
        return data, chunk
    data = encode(inner)
    return data, repaired(data) if "choices" in inner else chunk


def _kinds(name: str | None, data: bytes) -> set[str]:
    """Return the kinds of the Responses API's events that an event stands for."""
    return {kind for kind, _ in meanings(name, decode_lenient(data))} - {ERROR}
