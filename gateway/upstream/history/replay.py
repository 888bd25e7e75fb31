"""How the items of a history go back to a backend: data, one value a dialect, and what reads it.

A history may hold items of other backends than the one that is asked now, so every form makes any
item acceptable, or leaves it out. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw

from gateway.upstream.history.forms import FORMS, TOLD, Reasoning, assistants, kind_of, sealed
from lanes.codec import decode
from lanes.stream.item_schema import PREFIXES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Item = dict[str, Any]

#: Closes an input that ends with the assistant's words, where the backend would go on within them.
GO_ON: Final = {"type": "message", "role": "user", "content": "Continue."}

#: Kinds of items whose keys nobody has told us to leave out.
OPEN_KINDS: Final[Mapping[str, frozenset[str] | None]] = dict.fromkeys(
    [
        *("message", "reasoning", "function_call", "function_call_output"),
        *("custom_tool_call", "custom_tool_call_output", "web_search_call", "file_search_call"),
        *("code_interpreter_call", "image_generation_call", "mcp_call", "mcp_list_tools"),
        *("mcp_approval_request", "mcp_approval_response"),
    ]
)
#: The kinds that every backend knows, with the keys that every one of them reads.
CLOSED_KINDS: Final[Mapping[str, frozenset[str] | None]] = {
    "message": frozenset({"type", "role", "content", "status"}),
    "reasoning": frozenset({"type", "id", "summary", "content", "encrypted_content"}),
    "function_call": frozenset({"type", "call_id", "name", "arguments"}),
    "function_call_output": frozenset({"type", "call_id", "output"}),
}
CUSTOM_KINDS: Final[Mapping[str, frozenset[str] | None]] = {
    "custom_tool_call": frozenset({"type", "call_id", "name", "input"}),
    "custom_tool_call_output": frozenset({"type", "call_id", "output"}),
}


@dataclass(frozen=True, slots=True)
class Replay:
    """How one backend takes a history.

    kinds         the types of item it takes, each with the keys that stay (None: all of them);
                  None for any item as it is, but for reasoning
    reasoning     what of its reasoning it takes back
    parts         the keys of an assistant's text that stay beside `type` and `text`; None: all but
                  `logprobs`
    names         the types of the assistant's items that must have an id
    status        what an assistant message says of itself, whole or cut; None: nothing
    joins         it reads one text of an assistant message, so several are joined, and so are
                  messages in a row
    objects       the arguments of a call must be a JSON object, else they are sent as `{}`
    text_outputs  the output of a call must be one text
    tells_calls   it takes no calls back, so they and their outputs are told in words
    closes        it would go on within the assistant's words at the end, so GO_ON follows them
    """

    kinds: Mapping[str, frozenset[str] | None] | None = None
    reasoning: Reasoning = Reasoning.SEALED
    parts: frozenset[str] | None = frozenset()
    names: frozenset[str] = frozenset()
    status: str | None = None
    joins: bool = False
    objects: bool = False
    text_outputs: bool = False
    tells_calls: bool = False
    closes: bool = False


def replayed(items: Sequence[bytes], form: Replay) -> tuple[list[Any], list[str]]:
    """The items as the backend takes them, in order, and the types of those that it does not take.

    Reasoning that it does not take is left out without a word, and so is reasoning that nothing of
    the assistant's follows: nobody takes that. Idempotent.
    """
    if form.kinds is None:
        return _as_they_are(items), []
    taken: list[Item] = []
    left_out: list[str] = []
    names: dict[str, str] = {}
    for data in items:
        item = decode(data)
        kind = kind_of(item)
        if form.tells_calls and kind in TOLD:
            taken.append(TOLD[kind](item, names))
        elif kind not in form.kinds:
            left_out.append(kind)
        elif (made := _trimmed(item, kind, form.kinds[kind], form)) is not None:
            taken.append(made)
    return _ordered(taken, form), left_out


def _trimmed(item: Item, kind: str, keys: frozenset[str] | None, form: Replay) -> Item | None:
    made = FORMS[kind](item, form) if kind in FORMS else item
    if made is None or keys is None:
        return made
    return {key: made[key] for key in made if key in keys}


def _ordered(items: list[Item], form: Replay) -> list[Item]:
    kept = _answered(_attached(items))
    if form.joins:
        kept = _joined(kept)
    _name(kept, form.names)
    if form.closes and kept and assistants(kept[-1]):
        kept.append(GO_ON)
    return kept


def _as_they_are(items: Sequence[bytes]) -> list[Raw]:
    """Value for value; only what may be reasoning is read, and what follows it."""
    kept: list[bytes] = []
    for data in reversed(items):
        if b'"reasoning"' in data:
            item = decode(data)
            followed = bool(kept) and assistants(decode(kept[-1]))
            if kind_of(item) == "reasoning" and not (followed and sealed(item)):
                continue
        kept.append(data)
    return [Raw(data) for data in reversed(kept)]


def _attached(items: list[Item]) -> list[Item]:
    """Without reasoning that nothing of the assistant's follows."""
    kept: list[Item] = []
    for item in reversed(items):
        if item["type"] != "reasoning" or (kept and assistants(kept[-1])):
            kept.append(item)
    return kept[::-1]


def _name(items: list[Item], names: frozenset[str]) -> None:
    """Give the assistant's items of these types an id, by their place, where they have none."""
    for place, item in enumerate(items):
        if item["type"] in names and assistants(item) and not isinstance(item.get("id"), str):
            item["id"] = f"{PREFIXES[item['type']]}_{place}"


def _answered(items: list[Item]) -> list[Item]:
    """Each output before what was said after its call: in a chat nothing may come in between."""
    turns: list[list[Item]] = [[]]
    asked: dict[object, list[Item]] = {}
    for item in items:
        call_id = item.get("call_id")
        if call_id is None:
            if not assistants(item):
                turns.append([])
            turns[-1].append(item)
        elif assistants(item):
            asked[call_id] = turns[-1]
            turns[-1].append(item)
        else:
            asked.get(call_id, turns[-1]).append(item)
    return [item for turn in turns for item in turn]


def _joined(items: list[Item]) -> list[Item]:
    """Messages of the assistant's in a row as one; each has one text already."""
    kept: list[Item] = []
    for item in items:
        before = kept[-1] if kept else None
        if before is not None and _words(before) and _words(item):
            text = f"{before['content'][0]['text']}\n\n{item['content'][0]['text']}"
            kept[-1] = {**before, "content": [{**before["content"][0], "text": text}]}
        else:
            kept.append(item)
    return kept


def _words(item: Item) -> bool:
    return item["type"] == "message" and item.get("role") == "assistant"
