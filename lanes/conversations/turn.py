"""SHELL: a response that is bound to a conversation (protocol.md 8).

The conversation's items go in front of its input. Its terminal event is held until its own items
are in the conversation, so that whoever reads the event can build on them in any process.
"""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from lanes.codec import encode
from lanes.conversations.items import given_items, output_items, replayed_entries
from lanes.errors import ClientFault
from lanes.events import new_id
from lanes.history.archive import translated
from lanes.history.lineage import ENTRY_BYTES, Node
from lanes.stores.base import ChainTooLong
from lanes.stores.conversations import (
    Addition,
    ConversationFull,
    ConversationKey,
    ItemBounds,
    is_ours,
)
from lanes.stream.run_states import KEPT
from steering.errors import StoreUnavailable
from steering.loss_log import LossLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.history.archive import KeyArchive
    from lanes.history.entries import Entry
    from lanes.stores.conversations import ConversationItem, ConversationStore
    from lanes.stream.run import Run

#: Of all conversations: they are in one store.
_losses = LossLog(
    logging.getLogger("multilane.conversations"), "responses were not added to their conversations"
)

#: Tries to add what a response said, each of up to two seconds.
_ATTEMPTS = 3


@dataclass(slots=True, eq=False)
class ConversationNode(Node):
    """A conversation as what a response continues.

    Attributes:
        turn: The response's part in it, until it begins.
    """

    turn: ConversationTurn | None = None

    def begin(self, run: Run, entries: Sequence[Entry]) -> ConversationTurn | None:
        """Hold the end of the response that continues this, and return its part.

        Raises ConversationFull if there is no room for its input.
        """
        turn, self.turn = self.turn, None
        if turn is not None:
            turn.begin(run, entries)
        return turn


class ConversationTurn:
    """One response's part in a conversation.

    Args:
        store: Where the conversation is.
        key: The conversation.
        items: Its items.
        bounds: How much it may hold.
        body: The create's body.
    """

    def __init__(
        self,
        store: ConversationStore,
        key: ConversationKey,
        items: Sequence[ConversationItem],
        bounds: ItemBounds,
        body: dict[str, Any],
    ) -> None:
        self._store = store
        self._key = key
        self._ids = frozenset(item.id for item in items)
        self._bounds = bounds
        self._bytes = sum(item.size for item in items)
        self._token = secrets.token_hex(8)
        self._put: Callable[..., object] = _nowhere
        self._held: bytes | None = None
        #: What the upstream is asked: it keeps no part of this conversation.
        self.body = {key: value for key, value in body.items() if key != "conversation"}

    def begin(self, run: Run, entries: Sequence[Entry]) -> None:
        """Hold the terminal event of a response until `release`.

        Raises ConversationFull if the conversation has no room for its input.
        """
        size = sum(ENTRY_BYTES + len(entry.data) for entry in entries)
        if self._bytes + size > self._bounds.bytes:
            raise ConversationFull(self._bounds, "input")
        self._put, run.deliver = run.deliver, self._hold

    def release(self) -> None:
        """Send the terminal event, once."""
        held, self._held = self._held, None
        if held is not None:
            self._put(held)

    async def append(self, run: Run, entries: tuple[Entry, ...]) -> tuple[Entry, ...] | None:
        """Add a response's input and output, unless it failed, and send its terminal event.

        Return the input with the ids that it has in the conversation; None if the store does not
        take it: then the response fails, since its client must not build on it. A conversation that
        was deleted meanwhile takes nothing.
        """
        if run.state in KEPT:
            given = given_items(entries, self._ids, new_id)
            entries = tuple(replayed_entries(given))
            items = given + output_items(run.final, run.entries())
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    await self._store.append(self._key, Addition(items, self._token))
                    _losses.kept()
                    break
                except StoreUnavailable:
                    if attempt == _ATTEMPTS:
                        message = f"response {run.id} was not added to its conversation"
                        _losses.lost("the store did not take it", message)
                        self._fail()
                        return None
        self.release()
        return entries

    def _hold(self, *pieces: bytes) -> None:
        self._held = b"".join(pieces)

    def _fail(self) -> None:
        if self._held is not None:
            self._held = _failed(self._held)
        self.release()


async def bind(archive: KeyArchive, body: dict[str, Any]) -> ConversationNode | None:
    """Return the conversation that a create names; None if it is a backend's.

    Raises:
        ClientFault: It is not there for this key (404), or is full.
        ArchiveUnavailable: The store is away.
    """
    named = body["conversation"]
    conversation_id: str = named if isinstance(named, str) else named["id"]
    if not is_ours(conversation_id):
        return None
    store, key = archive.conversations, ConversationKey(archive.key_id, conversation_id)
    with translated():
        items = await store.items(key)
    if items is None:
        raise conversation_not_found(conversation_id, "conversation")
    bounds = ItemBounds(archive.max_chain)
    if len(items) >= bounds.items or sum(item.size for item in items) > bounds.bytes:
        raise ConversationFull(bounds, "conversation")
    node = ConversationNode.of(conversation_id, None, None, replayed_entries(items), ())
    node.turn = ConversationTurn(store, key, items, bounds, body)
    return node


def too_long(parent: Node, added: int, most: int) -> ClientFault:
    """Make the error of a create that builds on too much.

    Args:
        parent: The response or the conversation that it continues.
        added: Its own items.
        most: The items that a chain may have.
    """
    if isinstance(parent, ConversationNode):
        return ConversationFull(ItemBounds(most), "input")
    return ChainTooLong(parent.id, parent.length + added, most)


def conversation_not_found(conversation_id: str, param: str | None = None) -> ClientFault:
    """Make the error of a conversation that is nobody's here."""
    message = f"Conversation with id '{conversation_id[:256]}' not found."
    return ClientFault(message, code="conversation_not_found", status=404, param=param)


def _nowhere(_event: bytes) -> None:
    """Stand for the way of a response that has not begun."""


def _failed(event: bytes) -> bytes:
    """Return a terminal event as that of a failed response; both lack their last brace."""
    message = "The response was completed, but the store did not add it to its conversation."
    fields: dict[str, Any] = msgspec.json.decode(event + b"}")
    fields["type"] = "response.failed"
    ended = {"status": "failed", "completed_at": None, "incomplete_details": None}
    error = {"code": "server_error", "message": message}
    fields["response"] = {**fields["response"], **ended, "error": error}
    return encode(fields)[:-1]
