"""SHELL: the stored responses of the whole process, read through and written behind."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import anyio
import msgspec

from lanes.errors import Fault, parent_not_found
from lanes.history.entries import Entry
from lanes.history.lineage import Node
from lanes.stores.base import (
    NotStoredYet,
    ResponseNotStored,
    StoredResponse,
    UnreadableResponse,
    conversation_mark,
    plausible,
)
from lanes.stores.conversations import ConversationKey, is_ours
from lanes.stores.memory_conversations import MemoryConversationStore
from lanes.stores.sealing_keys import MemorySealingKeyStore
from lanes.stores.seals import Seals
from lanes.stores.writer import ResponseWriter
from steering.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Set

    from lanes.stores.background import ResponseInput, ResponseName
    from lanes.stores.base import ResponseStore, StoredChain
    from lanes.stores.conversations import ConversationStore
    from steering.counters import StoreCounters

#: Seconds until a missing response is looked up once more: another process may have sent its
#: terminal event a moment ago, and may still be writing it.
_BEHIND = 0.05


class ArchiveUnavailable(Fault):
    """The response store cannot serve the request now: a 503 for the client (protocol.md 3)."""

    def __init__(self, message: str, code: str = "store_unavailable") -> None:
        super().__init__(message, code=code, status=503, type="server_error")


@contextmanager
def translated() -> Iterator[None]:
    """Raise ArchiveUnavailable for a store's StoreUnavailable, whose text is for the log only."""
    try:
        yield
    except ResponseNotStored as error:
        raise ArchiveUnavailable(str(error), "response_not_stored") from error
    except (NotStoredYet, UnreadableResponse) as error:
        raise ArchiveUnavailable(str(error)) from error
    except StoreUnavailable as error:
        raise ArchiveUnavailable("The response store is not available.") from error


class Archive:
    """The responses that `store: true` keeps (protocol.md 3), by API key. Keep `run` running.

    The methods that read and delete raise ArchiveUnavailable when the store is away.

    Args:
        store: Where responses are kept.
        max_chain: Items that a create may build on.
        counters: Where writes are counted.
        conversations: Where conversations are kept; in memory if there is no such place.
        seals: Seal compaction items; with a key of this process if there are none.
    """

    def __init__(
        self,
        store: ResponseStore,
        max_chain: int,
        counters: StoreCounters | None = None,
        conversations: ConversationStore | None = None,
        seals: Seals | None = None,
    ) -> None:
        self.seals = seals or Seals((), MemorySealingKeyStore())
        self.conversations = conversations or MemoryConversationStore()
        self._store = store
        self._writer = ResponseWriter(store, counters=counters)
        self.max_chain = max_chain

    @property
    def waiting(self) -> int:
        """The responses on their way to the store."""
        return self._writer.waiting

    async def run(self) -> None:
        """Write what is put, until `aclose`."""
        await self._writer.run()

    def put(self, response: StoredResponse) -> None:
        """Keep a finished response. Returns at once."""
        self._writer.put(response)

    async def find(self, key_id: str, response_id: str) -> Node | None:
        """Return a stored response and all it builds on; None if it is not there for this key.

        Raises ChainTooLong, and ClientFault for one that could not be stored.
        """
        if not plausible(response_id):
            return None
        with translated():
            await self._writer.wait_for_write(key_id, response_id)
            chain = await self._store.load(key_id, response_id, self.max_chain)
            if chain is None:
                await anyio.sleep(_BEHIND)
                chain = await self._store.load(key_id, response_id, self.max_chain)
        if chain is not None:
            if chain.conversation_id is None:
                return chain.head()
            return await self._bound(key_id, chain, chain.conversation_id)
        try:
            self._writer.check_lost(key_id, response_id)
        except ResponseNotStored as lost:
            raise parent_not_found(response_id, f"it was not stored: {lost.reason}") from lost
        return None

    async def made(self, name: ResponseName, made_from: ResponseInput) -> Node | None:
        """Return a response that is not stored, without its output; None if its parent is gone."""
        before, last, parent = made_from.before, made_from.last, None
        if before is not None and not is_ours(before):
            parent = await self.find(name.key_id, before)
        elif before is not None and last is not None:
            parent = await self._conversation(name.key_id, before, {last}, last=True)
        elif before is not None:
            parent = Node.of(before, None, None, (), ())  # a conversation, empty by then
        if before is not None and parent is None:
            return None
        return Node.of(name.id, None, parent, made_from.entries, ())

    async def _bound(self, key_id: str, chain: StoredChain, conversation_id: str) -> Node | None:
        """Return a chain that begins in a conversation; None if that is gone.

        Args:
            key_id: The API key.
            chain: The chain.
            conversation_id: The conversation.
        """
        first = chain.links[0]
        entries = first.input_items + first.output_items
        own = {entry.id for entry in entries if entry.id is not None}
        before = await self._conversation(key_id, conversation_id, own)
        return None if before is None else chain.head(None, before)

    async def _conversation(
        self, key_id: str, conversation_id: str, ends: Set[str], *, last: bool = False
    ) -> Node | None:
        """Return what was in a conversation once; None if it is gone, or none of its ends is there.

        Args:
            key_id: The API key.
            conversation_id: The conversation.
            ends: The ids of items, of which the first found is the end.
            last: Whether that belongs to it.
        """
        with translated():
            items = await self.conversations.items(ConversationKey(key_id, conversation_id))
        places = (place for place, item in enumerate(items or ()) if item.id in ends)
        end = next(places, None)
        if items is None or end is None:
            return None
        before = [
            Entry.kept(item.data, item.id, item.calls) for item in items[: end + last] if item.data
        ]
        return Node.of(conversation_id, None, None, before, ())

    async def get(self, key_id: str, response_id: str) -> bytes | None:
        """Return the response object as the client got it; None if it is not there for this key."""
        if not plausible(response_id):
            return None
        with translated():
            await self._writer.wait_for_write(key_id, response_id)
            body = await self._store.get(key_id, response_id)
            if body is None:
                self._writer.check_lost(key_id, response_id)
            elif not _is_response(body):
                raise UnreadableResponse
        return body

    async def delete(self, key_id: str, response_id: str) -> bool:
        """Forget a response; False if it is not there for this key."""
        if not plausible(response_id):
            return False
        with translated():
            await self._writer.wait_for_write(key_id, response_id)
            deleted = await self._store.delete(key_id, response_id)
        return self._writer.forget_lost(key_id, response_id) or deleted

    async def aclose(self, timeout: float) -> None:
        """Write what waits, for `timeout` seconds at most, and let go of the store."""
        await self._writer.aclose(timeout)
        await self._store.aclose()


def _is_response(body: bytes) -> bool:
    """Return whether bytes of a store are a JSON object, as every response is."""
    try:
        return _object.decode(body) is not None
    except ValueError:
        return False


_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class KeyArchive:
    """The part of the archive that belongs to one API key.

    Attributes:
        key_id: The API key.
        conversations: Where conversations are kept, all keys' of them.
        seals: Seal and open compaction items.
        max_chain: Items that a create may build on.
    """

    def __init__(self, archive: Archive, key_id: str) -> None:
        self._archive = archive
        self.key_id = key_id
        self.conversations = archive.conversations
        self.seals = archive.seals
        self.max_chain = archive.max_chain

    async def find(self, response_id: str) -> Node | None:
        """Return a stored response (see `Archive.find`)."""
        return await self._archive.find(self.key_id, response_id)

    async def get(self, response_id: str) -> bytes | None:
        """Return a stored response's object (see `Archive.get`)."""
        return await self._archive.get(self.key_id, response_id)

    def put(
        self,
        response_id: str,
        parent_id: str | None,
        body: bytes,
        input_items: tuple[Entry, ...],
        output_items: tuple[Entry, ...],
    ) -> None:
        """Keep a finished response. Returns at once.

        Args:
            response_id: Its id.
            parent_id: The id of the response or the conversation that it continues.
            body: The response object as JSON.
            input_items: Its own input.
            output_items: Its output in the form that is replayed.
        """
        if parent_id is not None and parent_id.startswith("conv_"):
            output_items, parent_id = (*output_items, conversation_mark(parent_id)), None
        self._archive.put(
            StoredResponse(response_id, self.key_id, parent_id, body, input_items, output_items)
        )
