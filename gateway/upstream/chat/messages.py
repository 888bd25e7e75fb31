"""Input items -> the messages of Chat Completions. Pure.

Chat requires the outputs of calls right after the assistant message that holds the calls, all of
them and no others. The Responses API accepts them in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gateway.upstream.chat.content import output_of, parts_of, plain_or_parts, text_of
from gateway.upstream.chat.omissions import NOTICES, left_out
from gateway.upstream.chat.reasoning import goes_back, reasoning_fields
from gateway.upstream.chat.vendor_keys import returned, with_keys_of_call
from gateway.upstream.history.makers import own_call_id
from lanes.codec import decode, encode
from lanes.errors import unreadable_compaction
from lanes.history.entries import COMPACTION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gateway.upstream.chat.return_form import ReturnForm

Message = dict[str, Any]


@dataclass(slots=True, eq=False)
class _Call:
    """A call of the assistant; `at` is its place in the input, `own_id` what its maker calls it."""

    id: str
    own_id: str
    name: str
    arguments: str
    at: int
    kept: dict[str, Any]
    output: object = None
    answered: bool = False

    def chat_form(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": self.arguments}
        call = {"id": self.own_id, "type": "function", "function": function}
        return with_keys_of_call(call, self.kept) if self.kept else call


@dataclass(slots=True)
class _Turn:
    """The texts, the calls and the reasoning of one assistant message."""

    texts: list[str] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)
    reasoning: list[dict[str, Any]] = field(default_factory=list)

    @property
    def answered(self) -> list[_Call]:
        """The calls that have an output; no server takes any other."""
        return [call for call in self.calls if call.answered]


def messages(
    instructions: object, items: Sequence[dict[str, Any]], form: ReturnForm
) -> list[Message]:
    """Return the instructions and the input as messages, whatever the order of their roles.

    Args:
        instructions: The client's.
        items: The input.
        form: What the backend takes back.
    """
    transcript = _Transcript(form)
    if isinstance(instructions, list):  # the form that response objects use
        items = [*(item for item in instructions if isinstance(item, dict)), *items]
    elif isinstance(instructions, str) and instructions:
        transcript.entries.append({"role": "system", "content": instructions})
    for at, item in enumerate(items):
        transcript.read(item, at)
    transcript.answer()
    return transcript.messages()


class _Transcript:
    """The input in order: `entries` holds the messages of others, and the assistant's turns."""

    def __init__(self, form: ReturnForm) -> None:
        self._form = form
        self.entries: list[Message | _Turn] = []
        self._turn: _Turn | None = None  # the assistant's next text or call belongs to it
        self._outputs: list[tuple[int, str, object]] = []

    def read(self, item: dict[str, Any], at: int) -> None:
        """Take the item at a place."""
        kind = item.get("type") or ("message" if "role" in item else None)
        if kind == "message":
            self._message(item)
        elif kind in ("function_call", "custom_tool_call") and _is_whole(item):
            self._called(_call(item, at))
        elif kind in ("function_call_output", "custom_tool_call_output"):
            self._outputs.append((at, str(item.get("call_id")), item.get("output")))
            self._turn = None
        elif kind == "reasoning":
            self._assistant_turn().reasoning.append(item)
        elif kind == COMPACTION:
            raise unreadable_compaction()
        else:
            left_out("input item", kind)

    def answer(self) -> None:
        """Give each output to the nearest call before it that has none, else to the next one."""
        turns = [entry for entry in self.entries if isinstance(entry, _Turn)]
        open_calls: dict[str, list[_Call]] = {}
        for call in (call for turn in turns for call in turn.calls):
            open_calls.setdefault(call.id, []).append(call)
        for at, call_id, output in self._outputs:
            waiting = open_calls.get(call_id)
            if not waiting:
                left_out("call for the output", call_id)
                continue
            before = [call for call in waiting if call.at < at]
            call = before[-1] if before else waiting[0]
            waiting.remove(call)
            call.output, call.answered = output, True
        for call in (call for calls in open_calls.values() for call in calls):
            left_out("way to say a call without its output, as", call.name)

    def messages(self) -> list[Message]:
        """Return the messages in order, each call followed by its output."""
        built: list[Message] = []
        rounds = _rounds(_with_turns_joined(self.entries))
        for entries in rounds:
            turns = [entry for entry in entries if isinstance(entry, _Turn)]
            thinks = goes_back(
                self._form,
                calls=any(turn.answered for turn in turns),
                current=entries is rounds[-1],
            )
            for entry in entries:
                if isinstance(entry, _Turn):
                    built += _turn(entry, self._form if thinks else None)
                else:
                    built.append(entry)
        return built

    def _message(self, item: dict[str, Any]) -> None:
        role, content = item.get("role"), item.get("content")
        if role == "assistant":
            text = text_of(content, between="")
            if text:
                self._assistant_turn().texts.append(text)
            return
        self._turn = None
        if role == "user":
            parts = parts_of(content)
            if parts or not content:
                self.entries.append({"role": "user", "content": plain_or_parts(parts)})
        elif role in ("system", "developer"):
            # The older name is the one that every server and every chat template knows.
            self.entries.append({"role": "system", "content": text_of(content)})
        else:
            left_out("role", role)

    def _called(self, call: _Call) -> None:
        calls = self._assistant_turn().calls
        if any(other.id == call.id for other in calls):
            left_out("second call in one turn by the id", call.id)
        else:
            calls.append(call)

    def _assistant_turn(self) -> _Turn:
        if self._turn is None:
            self._turn = _Turn()
            self.entries.append(self._turn)
        return self._turn


def _is_whole(item: dict[str, Any]) -> bool:
    return isinstance(item.get("call_id"), str) and isinstance(item.get("name"), str)


def _call(item: dict[str, Any], at: int) -> _Call:
    if item["type"] == "custom_tool_call":
        arguments = encode({"input": item.get("input") or ""}).decode()
    else:
        arguments = str(item.get("arguments"))
        try:  # servers parse them for their chat templates, and fail on anything but an object
            parsed = decode(arguments.encode())
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict):
            NOTICES.warning("arguments", f"arguments of {item['name']!r:.64} that are no object")
            arguments = "{}"
    call_id = item["call_id"]
    own_id = own_call_id(item) or call_id
    return _Call(call_id, own_id, item["name"], arguments, at, returned(item))


def _rounds(entries: list[Message | _Turn]) -> list[list[Message | _Turn]]:
    """Return the entries from each message of the user to the next."""
    rounds: list[list[Message | _Turn]] = [[]]
    for entry in entries:
        if not isinstance(entry, _Turn) and entry["role"] == "user":
            rounds.append([])
        rounds[-1].append(entry)
    return rounds


def _with_turns_joined(entries: list[Message | _Turn]) -> list[Message | _Turn]:
    """Join turns that follow each other: what stood between them has no form in Chat."""
    kept: list[Message | _Turn] = []
    for entry in entries:
        last = kept[-1] if kept else None
        if isinstance(entry, _Turn) and isinstance(last, _Turn) and not last.answered:
            kept[-1] = _Turn(
                last.texts + entry.texts, entry.calls, last.reasoning + entry.reasoning
            )
        else:
            kept.append(entry)
    return kept


def _turn(turn: _Turn, form: ReturnForm | None) -> Iterator[Message]:
    """Yield the assistant's message and the outputs of its calls.

    `form` is what the backend takes back with it, if it takes anything.
    """
    calls = turn.answered
    text = "\n\n".join(turn.texts)
    if not calls and not text:
        return
    # An empty string suits servers that refuse a null, and those that require the key.
    message: Message = {"role": "assistant", "content": text}
    if form is not None:
        message |= reasoning_fields(turn.reasoning, form, calls=bool(calls))
        if message["content"] is not text and text:
            message["content"].append({"type": "text", "text": text})
    if calls:
        message["tool_calls"] = [call.chat_form() for call in calls]
    yield message
    media: list[Any] = []
    for call in calls:
        content, parts = output_of(call.output)
        media += parts
        yield {"role": "tool", "tool_call_id": call.own_id, "content": content}
    if media:
        yield {"role": "user", "content": media}
