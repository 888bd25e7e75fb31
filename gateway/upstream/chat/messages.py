"""Input items -> the messages of Chat Completions. Pure.

Chat wants the outputs of calls right after the assistant message that holds them, all of them and
no others; the Responses API lets them come in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gateway.upstream.chat.content import output_of, parts_of, plain_or_parts, text_of
from gateway.upstream.chat.omissions import NOTICES, left_out
from lanes.codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Message = dict[str, Any]

#: What follows an assistant message that would be the last: some servers refuse one there, others
#: would go on in the middle of it.
GO_ON: Final = "Continue."


@dataclass(slots=True, eq=False)
class _Call:
    """A call of the assistant's; `at` is its place in the input."""

    id: str
    name: str
    arguments: str
    at: int
    output: object = None
    answered: bool = False

    def form(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(slots=True)
class _Turn:
    """What the assistant said and called in one go."""

    texts: list[str] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)


def messages(instructions: object, items: Sequence[dict[str, Any]]) -> list[Message]:
    """All messages: the instructions first, then the input, never the assistant's last."""
    script = _Script()
    if isinstance(instructions, list):  # a response says them in that form
        items = [*(item for item in instructions if isinstance(item, dict)), *items]
    elif isinstance(instructions, str) and instructions:
        script.line.append({"role": "system", "content": instructions})
    for at, item in enumerate(items):
        script.read(item, at)
    script.answer()
    made = _one_system(script.messages())
    if made and made[-1]["role"] == "assistant":
        made.append({"role": "user", "content": GO_ON})
    return made


class _Script:
    """The input on its way to messages: `line` holds those of others, and the assistant's turns."""

    def __init__(self) -> None:
        self.line: list[Message | _Turn] = []
        self._turn: _Turn | None = None  # what the assistant says next still belongs to it
        self._outputs: list[tuple[int, str, object]] = []

    def read(self, item: dict[str, Any], at: int) -> None:
        """Take the item at that place."""
        kind = item.get("type") or ("message" if "role" in item else None)
        if kind == "message":
            self._message(item)
        elif kind in ("function_call", "custom_tool_call") and _is_whole(item):
            self._called(_call(item, at))
        elif kind in ("function_call_output", "custom_tool_call_output"):
            self._outputs.append((at, str(item.get("call_id")), item.get("output")))
            self._turn = None
        elif kind != "reasoning":  # of that Chat has no form that all servers take
            left_out("input item", kind)

    def answer(self) -> None:
        """Bring each output to its call: the nearest before it without one, else the next."""
        turns = [entry for entry in self.line if isinstance(entry, _Turn)]
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
        """The messages in order, each call followed by its output."""
        made: list[Message] = []
        for entry in self.line:
            if not isinstance(entry, _Turn):
                made.append(entry)
                continue
            for message in _turn(entry):
                if made and message["role"] == made[-1]["role"] == "assistant":
                    # What was between them has no form in Chat: they are one.
                    texts = filter(None, (made.pop()["content"], message["content"]))
                    message["content"] = "\n\n".join(texts)
                made.append(message)
        return made

    def _message(self, item: dict[str, Any]) -> None:
        role, content = item.get("role"), item.get("content")
        if role == "assistant":
            text = text_of(content, between="")
            if text:
                self._said().texts.append(text)
            return
        self._turn = None
        if role == "user":
            parts = parts_of(content)
            if parts or not content:
                self.line.append({"role": "user", "content": plain_or_parts(parts)})
        elif role in ("system", "developer"):
            # The older name is the one that every server and every chat template knows.
            self.line.append({"role": "system", "content": text_of(content)})
        else:
            left_out("role", role)

    def _called(self, call: _Call) -> None:
        calls = self._said().calls
        if any(other.id == call.id for other in calls):
            left_out("second call in one turn by the id", call.id)
        else:
            calls.append(call)

    def _said(self) -> _Turn:
        if self._turn is None:
            self._turn = _Turn()
            self.line.append(self._turn)
        return self._turn


def _is_whole(item: dict[str, Any]) -> bool:
    return isinstance(item.get("call_id"), str) and isinstance(item.get("name"), str)


def _call(item: dict[str, Any], at: int) -> _Call:
    if item["type"] == "custom_tool_call":
        arguments = encode({"input": item.get("input") or ""}).decode()
    else:
        arguments = str(item.get("arguments"))
        try:  # servers parse them again for their chat templates, and fail on what is no object
            parsed = decode(arguments.encode())
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict):
            NOTICES.warning("arguments", f"arguments of {item['name']!r:.64} that are no object")
            arguments = "{}"
    return _Call(item["call_id"], item["name"], arguments, at)


def _turn(turn: _Turn) -> Iterator[Message]:
    calls = [call for call in turn.calls if call.answered]
    text = "\n\n".join(turn.texts)
    if not calls:
        if text:
            yield {"role": "assistant", "content": text}
        return
    # An empty string is taken by servers that refuse a null, and by those that miss the key.
    yield {"role": "assistant", "content": text, "tool_calls": [call.form() for call in calls]}
    shown: list[Any] = []
    for call in calls:
        content, media = output_of(call.output)
        shown += media
        yield {"role": "tool", "tool_call_id": call.id, "content": content}
    if shown:
        yield {"role": "user", "content": shown}


def _one_system(made: list[Message]) -> list[Message]:
    """Join the system messages at the beginning: many chat templates take one, at the top."""
    head = list(_leading(made))
    if len(head) < 2:
        return made
    text = "\n\n".join(message["content"] for message in head)
    return [{"role": "system", "content": text}, *made[len(head) :]]


def _leading(made: Iterable[Message]) -> Iterator[Message]:
    for message in made:
        if message["role"] != "system":
            return
        yield message
