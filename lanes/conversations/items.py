"""Pure: items as a conversation keeps them, and as its client reads them (protocol.md 8)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lanes.history.entries import Entry
from lanes.long_strings import without_long_strings
from lanes.stores.conversations import ConversationItem
from lanes.stream.item_schema import PREFIXES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    Item = dict[str, Any]

#: What an id may look like so that a path can hold it.
_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,256}")
#: What is shown only if `include` asks for it: the type of item and the key.
_ON_REQUEST: Final = {
    "reasoning.encrypted_content": ("reasoning", "encrypted_content"),
    "file_search_call.results": ("file_search_call", "results"),
    "code_interpreter_call.outputs": ("code_interpreter_call", "outputs"),
}
_SOURCES: Final = "web_search_call.action.sources"
_LOGPROBS: Final = "message.output_text.logprobs"
#: Of these the whole is shown anyway.
_ALWAYS: Final = frozenset(
    {"message.input_image.image_url", "computer_call_output.output.image_url"}
    | {"web_search_call.results"}
)
#: What `include` may hold.
INCLUDABLE: Final = frozenset({*_ON_REQUEST, _SOURCES, _LOGPROBS, *_ALWAYS})


class _Named(msgspec.Struct):
    """An item, of which only the names are wanted."""

    id: Any = None
    type: Any = None


class _Ended(msgspec.Struct):
    """A response object, of which only the output is wanted."""

    output: list[msgspec.Raw]


_output: Final = msgspec.json.Decoder(_Ended).decode
_named: Final = msgspec.json.Decoder(_Named).decode
_item: Final[Callable[[bytes], Item]] = msgspec.json.Decoder(dict[str, Any]).decode


def given_items(
    entries: Iterable[Entry], taken: Collection[str], mint: Callable[[str], str]
) -> list[ConversationItem]:
    """Return items of a client's as a conversation keeps them: each with an id of its own.

    Args:
        entries: The items.
        taken: The ids that the conversation has already.
        mint: Makes an id from a prefix.
    """
    kept: list[ConversationItem] = []
    ids = set(taken)
    for entry in entries:
        item_id = entry.id
        if item_id is None or item_id in ids or not _ID.fullmatch(item_id):
            item_id = mint(_prefix(_named(without_long_strings(entry.data)).type))
        ids.add(item_id)
        kept.append(ConversationItem(item_id, entry.data, entry.calls))
    return kept


def output_items(final: bytes, entries: Iterable[Entry]) -> list[ConversationItem]:
    """Return the output of a response as a conversation keeps it.

    Args:
        final: The response object.
        entries: What of its output is replayed.
    """
    replayed = {entry.id: entry for entry in entries}
    kept = []
    for raw in _output(final).output:
        shown = bytes(raw)
        item_id = str(_named(without_long_strings(shown)).id)
        entry = replayed.get(item_id, Entry(b""))
        kept.append(ConversationItem(item_id, entry.data, entry.calls, shown))
    return kept


def replayed_entries(items: Iterable[ConversationItem]) -> list[Entry]:
    """Return the items that go to a backend."""
    return [Entry.kept(item.data, item.id, item.calls) for item in items if item.data]


def shown(item: ConversationItem, include: Collection[str]) -> Item:
    """Return an item as its client reads it, in the form of the official types.

    Args:
        item: The item.
        include: What else is shown of it.
    """
    fields: Item = {**_item(item.shown or item.data), "id": item.id}
    kind = fields["type"] = fields.get("type") or "message"
    if kind == "message":
        fields["content"] = [_part(part) for part in _parts(fields)]
    if _has_status(str(kind)) and fields.get("status") is None:
        fields["status"] = "completed"
    if kind == "reasoning":
        fields.setdefault("summary", [])
    return _without_extras(fields, include)


def _prefix(type: Any) -> str:
    kind = str(type or "message")
    return PREFIXES.get(kind) or PREFIXES.get(kind.removesuffix("_output"), "item")


def _has_status(kind: str) -> bool:
    return kind == "message" or kind.endswith(("_call", "_output"))


def _parts(message: Item) -> list[Any]:
    content = message.get("content")
    if isinstance(content, str):
        kind = "output_text" if message.get("role") == "assistant" else "input_text"
        return [{"type": kind, "text": content}]
    return content if isinstance(content, list) else []


def _part(part: Any) -> Any:
    defaults: dict[Any, Item] = {
        "output_text": {"annotations": []},
        "input_image": {"detail": "auto"},
    }
    kind = part.get("type") if isinstance(part, dict) else None
    return {**defaults[kind], **part} if isinstance(kind, str) and kind in defaults else part


def _without_extras(fields: Item, include: Collection[str]) -> Item:
    for name, (kind, key) in _ON_REQUEST.items():
        if fields["type"] == kind and name not in include:
            fields.pop(key, None)
    action = fields.get("action")
    if fields["type"] == "web_search_call" and isinstance(action, dict) and _SOURCES not in include:
        fields["action"] = {key: value for key, value in action.items() if key != "sources"}
    if fields["type"] == "message" and _LOGPROBS not in include:
        fields["content"] = [_without_logprobs(part) for part in fields["content"]]
    return fields


def _without_logprobs(part: Any) -> Any:
    if not isinstance(part, dict) or part.get("type") != "output_text":
        return part
    return {key: value for key, value in part.items() if key != "logprobs"}
