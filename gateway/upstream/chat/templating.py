"""Messages -> messages that a backend's chat template accepts (D39). Pure, and idempotent."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final

from gateway.upstream.chat.omissions import NOTICES
from gateway.upstream.chat.template import SystemPlace
from gateway.upstream.history.continuation import BEGIN_TEXT, CONTINUE_TEXT

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    from gateway.upstream.chat.template import TemplateForm

    Message = dict[str, Any]

#: What the assistant says between a tool and the user.
HEARD_TEXT: Final = "OK."
_BETWEEN: Final = "\n\n"


def in_template(messages: Sequence[Message], form: TemplateForm) -> list[Message]:
    """Return the messages in a form that the template accepts; the assistant's are never last."""
    kept = _each_in_form(_system_placed([*messages], form.system), form)
    if form.alternates:
        kept = _user_first(kept)
    if not form.user_follows:
        kept = _user_apart(kept)
    if form.alternates:
        kept = _joined(kept)
    if kept and kept[-1]["role"] in ("assistant", "system"):
        text = CONTINUE_TEXT if kept[-1]["role"] == "assistant" else BEGIN_TEXT
        kept.append({"role": "user", "content": text})
    return kept


def _each_in_form(messages: list[Message], form: TemplateForm) -> list[Message]:
    """Bring each message into form, whatever its place."""
    kept = messages
    if form.texts_only:
        kept = [_as_text(message) for message in kept]
    if not form.calls:
        kept = _calls_described(kept)
    if form.names_outputs:
        kept = _outputs_named(kept)
    if form.call_id is not None or not form.repeats_ids:
        kept = _with_unique_ids(kept)
    if form.call_id is not None:
        kept = _with_ids(kept, form.call_id)
    return kept


def _with_unique_ids(messages: list[Message]) -> list[Message]:
    """Tell calls of one message apart by their ids; their outputs follow in the same order."""
    kept: list[Message] = []
    waiting: dict[str, list[str]] = {}
    for message in messages:
        if message["role"] == "tool":
            names = waiting.get(message["tool_call_id"])
            message = {**message, "tool_call_id": names.pop(0)} if names else message
        elif "tool_calls" in message:
            ids = [call["id"] for call in message["tool_calls"]]
            waiting = {}
            calls = []
            for call, given in zip(message["tool_calls"], _unique(ids), strict=True):
                waiting.setdefault(call["id"], []).append(given)
                calls.append({**call, "id": given})
            message = {**message, "tool_calls": calls}
        kept.append(message)
    return kept


def _unique(ids: Sequence[str]) -> list[str]:
    """Return the ids, those that came before with a number behind them."""
    made: list[str] = []
    for one in ids:
        others = (f"{one}_{number}" for number in count(2))
        taken = {*made, *ids}
        made.append(one if one not in made else next(name for name in others if name not in taken))
    return made


def _outputs_named(messages: list[Message]) -> list[Message]:
    """Name the tool of each output; the message of its call comes before it."""
    names: dict[str, str] = {}
    kept = []
    for message in messages:
        for call in message.get("tool_calls", ()):
            names[call["id"]] = call["function"]["name"]
        named = (
            {"name": names.get(message["tool_call_id"], "")} if message["role"] == "tool" else {}
        )
        kept.append(message | named)
    return kept


def _system_placed(messages: list[Message], place: SystemPlace) -> list[Message]:
    """Join what the system says at the top, and put what it says later where it may be."""
    count = next((at for at, one in enumerate(messages) if one["role"] != "system"), len(messages))
    head, rest = messages[:count], messages[count:]
    if place is SystemPlace.FOLDED:
        head += [one for one in rest if one["role"] == "system"]
        rest = [one for one in rest if one["role"] != "system"]
    elif place is not SystemPlace.ANYWHERE:
        rest = [one | {"role": "user"} if one["role"] == "system" else one for one in rest]
    if not head:
        return rest
    said = _one(head)
    if place is not SystemPlace.NOWHERE:
        return [said, *rest]
    said = said | {"role": "user"}
    if rest and rest[0]["role"] == "user":
        return [_one([said, rest[0]]), *rest[1:]]
    return [said, *rest]


def _one(messages: Sequence[Message]) -> Message:
    """Join messages of one role: their contents, and what an assistant's have beside them."""
    first, *others = messages
    if not others:
        return first
    contents = [one["content"] for one in messages if one["content"]]
    content: str | list[Any]
    if all(isinstance(one, str) for one in contents):
        content = _BETWEEN.join(contents)
    else:
        content = []
        for one in contents:
            content += [{"type": "text", "text": one}] if isinstance(one, str) else one
    beside: dict[str, list[Any]] = {}
    for message in messages:
        for key in message.keys() - {"role", "content"}:
            beside.setdefault(key, []).append(message[key])
    rest = {
        key: "".join(values) if all(isinstance(value, str) for value in values) else values[-1]
        for key, values in beside.items()
    }
    return {"role": first["role"], "content": content, **rest}


def _joined(messages: list[Message]) -> list[Message]:
    """Join neighbouring messages of the user, and of the assistant where none of them calls."""
    groups: list[list[Message]] = []
    for message in messages:
        if groups and _are_one(groups[-1][-1], message):
            groups[-1].append(message)
        else:
            groups.append([message])
    return [_one(group) for group in groups]


def _are_one(last: Message, message: Message) -> bool:
    role = message["role"]
    if role != last["role"] or role not in ("user", "assistant"):
        return False
    return "tool_calls" not in last and "tool_calls" not in message


def _user_first(messages: list[Message]) -> list[Message]:
    """Let the user begin: many templates count from there."""
    at = next((at for at, one in enumerate(messages) if one["role"] != "system"), len(messages))
    if at == len(messages) or messages[at]["role"] == "user":
        return messages
    return [*messages[:at], {"role": "user", "content": BEGIN_TEXT}, *messages[at:]]


def _user_apart(messages: list[Message]) -> list[Message]:
    """Put a word of the assistant between a tool and the user."""
    kept: list[Message] = []
    for message in messages:
        if message["role"] == "user" and kept and kept[-1]["role"] == "tool":
            kept.append({"role": "assistant", "content": HEARD_TEXT})
        kept.append(message)
    return kept


def _calls_described(messages: list[Message]) -> list[Message]:
    """Say calls and outputs in words."""
    kept: list[Message] = []
    names: dict[str, str] = {}
    for message in messages:
        calls = message.get("tool_calls") or ()
        if message["role"] == "tool":
            name = names.get(message["tool_call_id"], "a tool")
            kept.append({"role": "user", "content": f"[Output of {name}: {message['content']}]"})
            continue
        lines = [message["content"]] if message["content"] or not calls else []
        for call in calls:
            function = call["function"]
            names[call["id"]] = function["name"]
            lines.append(f"[Called {function['name']} with {function['arguments']}]")
        said = lines[0] if len(lines) == 1 else _BETWEEN.join(map(_text, lines))
        rest = {key: value for key, value in message.items() if key != "tool_calls"}
        kept.append({**rest, "content": said})
    return _joined(kept)


def _as_text(message: Message) -> Message:
    content = message["content"]
    return message if isinstance(content, str) else {**message, "content": _text(content)}


def _text(content: object) -> str:
    """Return a content as one text; any other part is named, so that the model knows of it."""
    if isinstance(content, str):
        return content
    lines = []
    for part in content if isinstance(content, list) else ():
        text = part.get("text")
        if not isinstance(text, str):
            text = f"[{part.get('type')}]"
            NOTICES.warning("text content", "this backend reads texts only; others are named")
        lines.append(text)
    return "\n".join(lines)


def _with_ids(messages: list[Message], fits: re.Pattern[str]) -> list[Message]:
    """Give calls ids that the backend accepts, by their order: a longer history keeps them."""
    ids = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    taken = {one for one in ids if fits.fullmatch(one)}
    free = (name for number in count() if (name := f"call{number:05}") not in taken)
    given = {one: one if one in taken else next(free) for one in dict.fromkeys(ids)}
    kept: list[Message] = []
    for message in messages:
        if message["role"] == "tool":
            call_id = message["tool_call_id"]
            kept.append({**message, "tool_call_id": given.get(call_id, call_id)})
        elif "tool_calls" in message:
            calls = [{**call, "id": given[call["id"]]} for call in message["tool_calls"]]
            kept.append({**message, "tool_calls": calls})
        else:
            kept.append(message)
    return kept
