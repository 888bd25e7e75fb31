"""Pure: a response object with what `include` adds to it (protocol.md 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.upstream.history.item_forms import is_sealed
from lanes.codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Collection

    from lanes.history.lineage import Node

#: What a response has in the store without having shown it.
_ENCRYPTED: Final = "reasoning.encrypted_content"


def adds(include: Collection[str]) -> bool:
    """Return whether this may add anything: what else there is, the client has seen."""
    return _ENCRYPTED in include


def with_encrypted_reasoning(body: bytes, response: Node) -> bytes:
    """Return a response object whose reasoning has its encrypted form, where it is stored."""
    fields = decode(body)
    fields["output"] = [_whole(item, response) for item in fields["output"]]
    return encode(fields)


def _whole(item: dict[str, Any], response: Node) -> dict[str, Any]:
    entry = response.items.get(item["id"]) if item["type"] == "reasoning" else None
    if entry is None or item.get("encrypted_content"):
        return item
    kept = decode(entry.data)
    return {**item, "encrypted_content": kept["encrypted_content"]} if is_sealed(kept) else item
