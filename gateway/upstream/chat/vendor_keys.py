"""Keys of a vendor's own that must go back where they came from, value for value (D40). Pure.

They come whole or in pieces, and are shown on the item under their own names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lanes.history.makers import MADE_BY, own_keys
from lanes.stream.item_schema import PRIVATE_KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Keys of an item that mean something else; a vendor's key of that name gets the prefix.
_TAKEN: Final = PRIVATE_KEYS | frozenset(
    {"type", "id", "call_id", "name", "arguments", "input", "output", "status", "role", "content"}
    | {"summary", "phase", "encrypted_content", "namespace", "async", "caller", "agent", MADE_BY}
)
_PREFIX: Final = "backend_"
#: What a tool call of Chat Completions has itself.
_OF_CALL: Final = frozenset({"index", "id", "type", "function"})
_OF_FUNCTION: Final = frozenset({"name", "arguments"})
#: Texts that come in pieces, though two pieces may be the same; any other text that comes again
#: is the same one.
_FLOWING: Final = frozenset({"text", "summary", "thinking", "content"})


def keys_of_call(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an entry of `tool_calls` holds beside the keys of Chat Completions."""
    if entry.keys() <= _OF_CALL and _plain(entry):
        return {}
    kept = {key: entry[key] for key in entry if key not in _OF_CALL and entry[key] is not None}
    function = entry.get("function")
    if isinstance(function, dict):
        inner = {
            key: value
            for key, value in function.items()
            if key not in _OF_FUNCTION and value is not None
        }
        if inner:
            kept["function"] = inner
    return kept


def _plain(entry: Mapping[str, Any]) -> bool:
    function = entry.get("function")
    return not isinstance(function, dict) or function.keys() <= _OF_FUNCTION


def with_keys_of_call(call: dict[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call as a message has it, with what its backend gave it."""
    inner = kept.get("function")
    function = {**inner, **call["function"]} if isinstance(inner, dict) else call["function"]
    return {**kept, **call, "function": function}


def shown(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return a vendor's keys as an item shows them."""
    return {_shown(key): value for key, value in kept.items()}


def returned(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the vendor's keys that an item shows, as they came."""
    named = own_keys(item.get(MADE_BY))
    return {key.removeprefix(_PREFIX): item[key] for key in named if key in item}


def _shown(key: str) -> str:
    return _PREFIX + key if key in _TAKEN or key.startswith(_PREFIX) else key


def merged(pieces: Sequence[Any]) -> Any:
    """Return the value whose pieces came in several chunks."""
    return pieces[0] if len(pieces) == 1 else _merged(pieces, "")


def _merged(pieces: Sequence[Any], key: str) -> Any:
    values = [piece for piece in pieces if piece is not None]
    if len(values) < 2:
        return values[0] if values else None
    if all(isinstance(value, dict) for value in values):
        names = dict.fromkeys(name for value in values for name in value)
        return {name: _merged([v[name] for v in values if name in v], name) for name in names}
    if key not in _FLOWING and all(value == values[0] for value in values):
        return values[0]
    if all(isinstance(value, list) for value in values):
        return _entries(values)
    if all(isinstance(value, str) for value in values):
        return "".join(values)
    return values[-1]


def _entries(lists: Sequence[list[Any]]) -> list[Any]:
    """Return the entries of lists that come one after the other; pieces of one are one."""
    groups: list[list[Any]] = []
    for entry in (entry for one in lists for entry in one):
        group = next((group for group in reversed(groups) if _goes_on(group, entry)), None)
        if group is None:
            groups.append([entry])
        else:
            group.append(entry)
    return [_merged(group, "") for group in groups]


def _goes_on(group: list[Any], entry: Any) -> bool:
    """Return whether an entry is more of one that began before."""
    first, last = group[0], group[-1]
    if not isinstance(first, dict) or not isinstance(entry, dict):
        return False
    if first.get("type") != entry.get("type") or first.get("index") != entry.get("index"):
        return False
    if None not in (first.get("id"), entry.get("id")) and first["id"] != entry["id"]:
        return False
    if entry.get("index") is not None:
        return "data" not in entry or entry["data"] == first.get("data")
    return bool(_FLOWING & entry.keys()) and not last.get("signature")
