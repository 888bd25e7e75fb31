"""SHELL: what a create over HTTP would send as its input: all that it continues, and its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.conversations.turn import bind
from lanes.errors import parent_not_found
from lanes.history.entries import input_items
from lanes.history.lineage import Lineage, resolve_input

if TYPE_CHECKING:
    from lanes.frames import Create
    from lanes.history.archive import KeyArchive
    from lanes.history.lineage import Node


async def whole_input(
    archive: KeyArchive, create: Create
) -> tuple[Node | None, list[bytes], list[bytes]]:
    """Return what a create continues, all items of that, and the create's own items.

    Raises ClientFault as the create would, and ArchiveUnavailable.
    """
    parent = await _parent(archive, create)
    given = input_items(create.body.get("input"), archive.max_chain)
    bound = parent is None and create.body.get("conversation") is not None
    entries = resolve_input(given, parent, Lineage(), conversation=bound)
    return parent, Lineage.effective(parent), [entry.data for entry in entries]


async def _parent(archive: KeyArchive, create: Create) -> Node | None:
    if create.parent_id is not None:
        node = await archive.find(create.parent_id)
        if node is None:
            raise parent_not_found(create.parent_id)
        return node
    if create.body.get("conversation") is not None:
        return await bind(archive, create.body)
    return None
