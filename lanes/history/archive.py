"""SHELL: the stored responses of the whole process, read through and written behind."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio

from lanes.errors import Fault
from lanes.stores.base import NotStoredYet, StoredResponse, UnreadableResponse, plausible
from lanes.stores.writer import ResponseWriter
from steering.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lanes.history.entries import Entry
    from lanes.history.lineage import Node
    from lanes.stores.base import ResponseStore

#: Seconds until a missing response is looked up once more: another process may have sent its
#: terminal event a moment ago, and may still be writing it.
_BEHIND = 0.05


class ArchiveUnavailable(Fault):
    """The response store cannot serve the request now: a 503 for the client (protocol.md 3)."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="store_unavailable", status=503, type="server_error")


@contextmanager
def _translated() -> Iterator[None]:
    """Raise ArchiveUnavailable for a store's StoreUnavailable, whose text is for the log only."""
    try:
        yield
    except (NotStoredYet, UnreadableResponse) as error:
        raise ArchiveUnavailable(str(error)) from error
    except StoreUnavailable as error:
        raise ArchiveUnavailable("The response store is not available.") from error


class Archive:
    """The responses that `store: true` keeps (protocol.md 3), by API key. Keep `run` running.

    `max_chain` is how many items a create may build on. The methods that read and
    delete raise ArchiveUnavailable when the store is away.
    """

    def __init__(self, store: ResponseStore, max_chain: int) -> None:
        self._store = store
        self._writer = ResponseWriter(store)
        self.max_chain = max_chain

    async def run(self) -> None:
        """Write what is put, until `aclose`."""
        await self._writer.run()

    def put(self, response: StoredResponse) -> None:
        """Keep a finished response. Returns at once."""
        self._writer.put(response)

    async def find(self, key_id: str, response_id: str) -> Node | None:
        """Return a stored response and all it builds on; None if it is not there for this key.

        Raises ChainTooLong.
        """
        if not plausible(response_id):
            return None
        with _translated():
            await self._writer.wait_for_write(key_id, response_id)
            chain = await self._store.load(key_id, response_id, self.max_chain)
            if chain is None:
                await anyio.sleep(_BEHIND)
                chain = await self._store.load(key_id, response_id, self.max_chain)
        return None if chain is None else chain.head()

    async def get(self, key_id: str, response_id: str) -> bytes | None:
        """Return the response object as the client got it; None if it is not there for this key."""
        if not plausible(response_id):
            return None
        with _translated():
            await self._writer.wait_for_write(key_id, response_id)
            return await self._store.get(key_id, response_id)

    async def delete(self, key_id: str, response_id: str) -> bool:
        """Forget a response; False if it is not there for this key."""
        if not plausible(response_id):
            return False
        with _translated():
            await self._writer.wait_for_write(key_id, response_id)
            return await self._store.delete(key_id, response_id)

    async def aclose(self, timeout: float) -> None:
        """Write what waits, for `timeout` seconds at most, and let go of the store."""
        await self._writer.aclose(timeout)
        await self._store.aclose()


class KeyArchive:
    """The part of the archive that belongs to one API key."""

    def __init__(self, archive: Archive, key_id: str) -> None:
        self._archive = archive
        self._key_id = key_id
        self.max_chain = archive.max_chain

    async def find(self, response_id: str) -> Node | None:
        """Return a stored response (see `Archive.find`)."""
        return await self._archive.find(self._key_id, response_id)

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
            parent_id: The id of the response it continues.
            body: The response object as JSON.
            input_items: Its own input.
            output_items: Its output in the form that is replayed.
        """
        self._archive.put(
            StoredResponse(response_id, self._key_id, parent_id, body, input_items, output_items)
        )
