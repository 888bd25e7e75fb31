"""Responses and chains for the tests of the response store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.history.entries import Entry
from lanes.history.lineage import Lineage
from lanes.stores.base import MAX_CHAIN, StoredResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.stores.base import ResponseStore

KEY = "key_1"


def entries(*texts: str) -> tuple[Entry, ...]:
    """One item for each text; the texts are all they hold."""
    return tuple(Entry(text.encode(), f"msg_{text}", (("call_id", text),)) for text in texts)


def response(
    id: str,
    parent_id: str | None = None,
    *,
    key_id: str = KEY,
    before: Sequence[Entry] | None = None,
    after: Sequence[Entry] | None = None,
    body: bytes | None = None,
) -> StoredResponse:
    """A response with one item each way, named after it."""
    return StoredResponse(
        id,
        key_id,
        parent_id,
        f'{{"id":"{id}"}}'.encode() if body is None else body,
        tuple(entries(f"{id}.in") if before is None else before),
        tuple(entries(f"{id}.out") if after is None else after),
    )


async def grow(store: ResponseStore, *path: str, key_id: str = KEY) -> None:
    """Save a chain, each response the parent of the next; the first may be there already."""
    for parent_id, id in zip((None, *path), path, strict=False):
        await store.save(response(id, parent_id, key_id=key_id))


async def history(store: ResponseStore, id: str, key_id: str = KEY) -> list[str] | None:
    """The ids of the chain; its items must be theirs, in that order, in the links and replayed."""
    chain = await store.load(key_id, id, MAX_CHAIN)
    if chain is None:
        return None
    ids = [link.id for link in chain.links]
    for link in chain.links:
        assert link.input_items == entries(f"{link.id}.in")
        assert link.output_items == entries(f"{link.id}.out")
    replayed = [f"{id}.{way}".encode() for id in ids for way in ("in", "out")]
    assert Lineage.effective(chain.head()) == replayed
    return ids
