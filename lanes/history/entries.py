"""Items of a create's input and of a response's output, as history keeps them (protocol.md 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lanes.codec import encode
from lanes.errors import ClientFault
from lanes.history.short_items import ShortItems

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: How an output names its call: the key and the value.
CallKey = tuple[str, str]

#: The type of the item that stands for what came before it, and of the one that asks for it.
COMPACTION: Final = "compaction"
COMPACTION_TRIGGER: Final = "compaction_trigger"

#: Answers to these name the `id` that the client knows, so they are replayed under that id.
_ANSWERED_BY_ID = frozenset({"mcp_approval_request", "local_shell_call"})


class EncodedItem(dict[str, Any]):
    """An item that was encoded when it was read: `data` is its JSON (D33).

    Its long strings are in `data` alone. Only its names are whole here as well.
    """

    __slots__ = ("data",)

    def __init__(self, item: Mapping[str, Any], data: bytes) -> None:
        super().__init__(item)
        self.data = data


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of history: the JSON that is replayed, and the names that refer to it.

    The names come from the parsed item, never from a search in the bytes.

    Attributes:
        data: The JSON.
        id: What an `item_reference` calls it.
        calls: The calls it owns, which outputs may answer.
        compacts: Whether it is a compaction item.
    """

    data: bytes
    id: str | None = None
    calls: tuple[CallKey, ...] = ()
    compacts: bool = False

    @classmethod
    def of(cls, item: Mapping[str, Any], data: bytes | None = None) -> Entry:
        """Return the entry of `item` as the client knows it.

        `data` is the JSON that is replayed where it differs: the backend's own form.
        """
        item_id = item.get("id")
        if data is None or item.get("type") in _ANSWERED_BY_ID:
            data = item.data if isinstance(item, EncodedItem) else encode(item)
        return cls(
            data,
            item_id if isinstance(item_id, str) else None,
            tuple(calls_of(item)),
            item.get("type") == COMPACTION,
        )

    @classmethod
    def kept(cls, data: bytes, id: str, calls: tuple[CallKey, ...]) -> Entry:
        """Return the entry of an item that a conversation kept.

        Args:
            data: The JSON.
            id: Its id.
            calls: The calls it owns.
        """
        return cls(data, id, calls, compacts=b'"compaction"' in data and is_compaction(data))


def input_items(
    value: str | Sequence[dict[str, Any]] | None, max_items: int | None = None
) -> list[dict[str, Any]]:
    """Return a create's `input` as items: a string is one user message.

    Raises ClientFault if there are more than `max_items`.
    """
    if isinstance(value, str):
        content = [{"type": "input_text", "text": value}]
        return [{"type": "message", "role": "user", "content": content}]
    if value is not None and max_items is not None and len(value) > max_items:
        raise too_many_items(len(value), max_items)
    return list(value or ())


def too_many_items(count: int, most: int) -> ClientFault:
    """Return the error of an `input` that is longer than a chain may be."""
    message = f"'input' has {count} items; at most {most} are allowed."
    return ClientFault(message, code="too_many_items", param="input")


def answers(item: Mapping[str, Any]) -> CallKey | None:
    """Return the call that an item answers, if it answers one.

    Any `*_output` by its `call_id`, known type or not, and an `mcp_approval_response` by its
    `approval_request_id`. A local shell output may say `id` for `call_id`. An output that names no
    call, or not by a string, is the backend's to judge.
    """
    kind = str(item.get("type"))
    name = "approval_request_id" if kind == "mcp_approval_response" else "call_id"
    if name == "call_id" and not kind.endswith("_output"):
        return None
    value = item.get(name)
    if value is None and kind == "local_shell_call_output":
        value = item.get("id")
    return (name, value) if isinstance(value, str) else None


def reference(item: Mapping[str, Any]) -> str | None:
    """Return the id that an `item_reference` names; None for any other item.

    A reference may leave out its `type`: then `id` is its only key. Raises ClientFault when the
    `id` is missing.
    """
    kind = item.get("type")
    nameless = kind is None and "id" in item and item.keys() <= {"id", "type"}
    if kind != "item_reference" and not nameless:
        return None
    item_id = item.get("id")
    if not isinstance(item_id, str):
        raise invalid("An item_reference needs the 'id' of an item, a string.")
    return item_id


def is_compaction(data: bytes) -> bool:
    """Return whether an item, as JSON, is a compaction item."""
    return ShortItems().read(data).get("type") == COMPACTION


def invalid(message: str) -> ClientFault:
    """Return the error of an `input` that refers to something unknown."""
    return ClientFault(message, code="invalid_value", param="input")


def calls_of(item: Mapping[str, Any]) -> Iterator[CallKey]:
    """Yield the calls that an item owns.

    By `call_id` on anything that is no output itself (`program` has one, too), else by the `id` of
    a `*_call`. A local shell call answers to both: its output names it by `id`. Approval requests
    are asked for by `id`, under another key, so that no call id passes for one.
    """
    kind, item_id, call_id = str(item.get("type")), item.get("id"), item.get("call_id")
    if kind.endswith("_output"):
        return
    if isinstance(call_id, str):
        yield "call_id", call_id
    if isinstance(item_id, str):
        if kind == "mcp_approval_request":
            yield "approval_request_id", item_id
        elif kind == "local_shell_call" or (kind.endswith("_call") and not call_id):
            yield "call_id", item_id
