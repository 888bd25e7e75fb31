"""The repairs that a single event of a backend needs, by its fields alone. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lanes.stream.item_schema import PRIVATE_KEYS
from lanes.stream.parts import ARGUMENTS, BY_DELTA, BY_DONE, OUTPUT_TEXT

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The keys that the official types require of a response object.
_SNAPSHOT: Final = frozenset(
    {"id", "object", "created_at", "status", "model", "output"}
    | {"tools", "tool_choice", "parallel_tool_calls"}
)
_DETAILS: Final = {
    "input_tokens_details": ("cached_tokens", "cache_write_tokens"),
    "output_tokens_details": ("reasoning_tokens",),
}
_ITEMS: Final = {
    "message": ("status", "role", "content"),
    "reasoning": ("summary",),
    "function_call": ("call_id", "name", "arguments"),
}
_PRIVATE: Final = PRIVATE_KEYS | {"obfuscation", "phase"}


def flaws(event: dict[str, Any]) -> Iterator[str]:
    """Yield the names of the repairs (`repairs.RULES`) that this event needs."""
    yield from _own(event)
    yield from _place(event)
    for holder in (event.get("response"), event.get("item"), event.get("part")):
        if isinstance(holder, dict) and _PRIVATE & {k for k, v in holder.items() if v is not None}:
            yield "private_keys"
    if isinstance(item := event.get("item"), dict):
        yield from _item(item)
    if isinstance(part := event.get("part"), dict):
        yield from _part(part)


def usage_flaws(usage: object) -> Iterator[str]:
    """Yield the repairs that a finished response's `usage` needs."""
    if not isinstance(usage, dict):
        yield "no_usage"
        return
    for name, keys in _DETAILS.items():
        details = usage.get(name)
        if not isinstance(details, dict) or any(details.get(key) is None for key in keys):
            yield "thin_usage"
            return


def snapshot_flaws(response: dict[str, Any]) -> Iterator[str]:
    """Yield the repairs that a response object needs."""
    if not response.keys() >= _SNAPSHOT:
        yield "thin_snapshots"


def _own(event: dict[str, Any]) -> Iterator[str]:
    kind = event["type"]
    if "sequence_number" not in event:
        yield "no_numbers"
    if _PRIVATE & event.keys():
        yield "private_keys"
    if kind in BY_DELTA:
        delta = event.get("delta")
        if not isinstance(delta, str) or not delta:
            yield "empty_deltas"
    if kind in (OUTPUT_TEXT.delta, OUTPUT_TEXT.done) and not isinstance(
        event.get("logprobs"), list
    ):
        yield "no_logprobs"
    if kind == ARGUMENTS.done and not event.get("name"):
        yield "unnamed_calls"


def _place(event: dict[str, Any]) -> Iterator[str]:
    """Check that an event about an item names it, by place and id."""
    kind = BY_DELTA.get(event["type"]) or BY_DONE.get(event["type"])
    about_part = kind is not None or "part" in event
    if not about_part and "item" not in event:
        return
    index_key = kind.index_key if kind is not None else None
    if "output_index" not in event or (index_key is not None and index_key not in event):
        yield "no_indices"
    named = event.get("item_id") if about_part else _id(event["item"])
    if not named:
        yield "missing_ids"


def _item(item: dict[str, Any]) -> Iterator[str]:
    needed = _ITEMS.get(str(item.get("type")), ())
    if any(item.get(key) is None for key in needed):
        yield "thin_items"
    if item.get("encrypted_content", "x") in (None, "") or item.get("content", "x") is None:
        yield "nulls"
    parts = item.get("content")
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict):
            yield from _part(part)


def _part(part: dict[str, Any]) -> Iterator[str]:
    if part.get("type") != "output_text":
        return
    if not isinstance(part.get("annotations"), list):
        yield "no_annotations"
    if part.get("logprobs", []) is None:
        yield "nulls"


def _id(item: object) -> object:
    return item.get("id") if isinstance(item, dict) else None
