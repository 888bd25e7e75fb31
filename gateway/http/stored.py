"""SHELL: what a client asks of a response that was created before (protocol.md 7)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
from starlette.responses import Response

from gateway.http.answers import StreamedAnswer
from gateway.http.collector import said
from gateway.http.conversations import listed
from gateway.http.event_log import EventLog, LogFollower, events_of
from gateway.http.inclusion import adds, with_encrypted_reasoning
from gateway.http.input_items import input_items, page_of_items
from gateway.http.mirror import mirror
from gateway.http.paging import included, page_of
from gateway.http.queries import flag, number
from lanes.codec import encode
from lanes.cpu_thread import run_in_cpu_thread
from lanes.errors import ClientFault
from lanes.history.archive import ArchiveUnavailable, translated
from lanes.stores.background import ResponseName, ended_with_its_process
from lanes.stores.packing import THREAD_OVER

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from gateway.http.answers import Wires
    from gateway.http.background import BackgroundResponses
    from gateway.persistence.stores import Stores
    from lanes.history.lineage import Node
    from lanes.stores.background import BackgroundRecord

#: Seconds between two looks at a response that another process is to cancel, and for all of them.
_POLL: Final = 0.1
_PATIENCE: Final = 5.0


class StoredResponses:
    """Responses by their id: stored ones, and those in the background, wherever they run.

    Args:
        stores: Where they are.
        background: Those that run in this process.
        wires: Find the clients' connections.

    Attributes:
        background: The same.
    """

    def __init__(self, stores: Stores, background: BackgroundResponses, wires: Wires) -> None:
        self._archive = stores.archive
        self._store = stores.background
        self.background = background
        self._wires = wires

    async def created(self, key_id: str, first: bytes, *, streams: bool) -> ASGIApp:
        """Return what answers a create in the background.

        Args:
            key_id: The API key that asks.
            first: The object of the response at its beginning.
            streams: Whether the client wants events.
        """
        if streams:
            return await self._stream(ResponseName(key_id, said(first).id), 0)
        return _json(first)

    async def lost(self, key_id: str, first: bytes) -> bool:
        """Return whether a response in the background ended with its process.

        Args:
            key_id: The API key that asks.
            first: The object of the response at its beginning.
        """
        record = await self._record(ResponseName(key_id, said(first).id))
        return record is not None and ended_with_its_process(record.body)

    async def get(self, key_id: str, request: Request) -> ASGIApp:
        """Return a response object as it is now, or the response's events."""
        name = ResponseName(key_id, request.path_params["id"])
        include = included(request.query_params)
        after = number(request, "starting_after", -1)
        flag(request, "include_obfuscation")  # an answer from the store has none
        if flag(request, "stream"):
            return await self._stream(name, after + 1, include)
        if after >= 0:
            message = "'starting_after' goes with 'stream=true' alone."
            raise ClientFault(message, code="invalid_value", param="starting_after")
        return _json(await self._included(name, await self._object(name), include))

    async def check(self, key_id: str, response_id: str) -> None:
        """Raise ClientFault if this key has no such response stored or in the background.

        Args:
            key_id: The API key that asks.
            response_id: The response.
        """
        await self._object(ResponseName(key_id, response_id))

    async def delete(self, key_id: str, request: Request) -> ASGIApp:
        """Forget a response; one that runs is cancelled before."""
        name = ResponseName(key_id, request.path_params["id"])
        run = self.background.find(name)
        if run is not None:
            await self.background.cancel(run)
        else:
            record = await self._record(name)
            if record is not None and not record.over:
                await self._cancel_elsewhere(name)
        with translated():
            deleted = await self._store.delete(name)
        if run is not None:
            self.background.forget(run)
        if not await self._archive.delete(*name) and not deleted:
            raise missing(name.id)
        return _json(encode({"id": name.id, "object": "response", "deleted": True}))

    async def cancel(self, key_id: str, request: Request) -> ASGIApp:
        """Cancel a response in the background, and return its final object."""
        name = ResponseName(key_id, request.path_params["id"])
        run = self.background.find(name)
        if run is not None:
            body = await self.background.cancel(run)
        else:
            body = await self._cancel_elsewhere(name)
        status = said(body).status
        if status != "cancelled":
            message = f"Response '{name.id}' is {status} already."
            raise ClientFault(message, code="response_already_completed", status=409)
        return _json(body)

    async def input_items(self, key_id: str, request: Request) -> ASGIApp:
        """Return a page of what a response was made from."""
        name = ResponseName(key_id, request.path_params["id"])
        include, page = included(request.query_params), page_of(request.query_params)
        await self._object(name)
        response = await self._made(name)
        if response is None:
            message = f"The input of response '{name.id}' is not stored, or not all of it any more."
            raise ClientFault(message, code="not_found", status=404)
        named = await run_in_cpu_thread(input_items, response)
        items = page_of_items(named, page.one_more)
        if items is None:
            message = f"There is no item with id '{str(page.after)[:80]}'."
            raise ClientFault(message, code="item_not_found", status=404, param="after")
        return await listed(items[: page.limit], include, more=len(items) > page.limit)

    async def _made(self, name: ResponseName) -> Node | None:
        """Return a response with all that it was made from, if that is stored; it may still run."""
        response = await self._archive.find(*name)
        if response is None:
            with translated():
                made_from = await self._store.made_from(name)
            if made_from is not None:
                response = await self._archive.made(name, made_from)
        return response

    async def _cancel_elsewhere(self, name: ResponseName) -> bytes:
        """Ask the process that runs a response, and return what became of it."""
        record = await self._record(name)
        if record is None:
            return await self._object(name)
        with anyio.move_on_after(_PATIENCE):
            while not record.over:
                with translated():
                    await self._store.ask_to_cancel(name)
                await anyio.sleep(_POLL)
                record = await self._record(name)
                if record is None:
                    raise missing(name.id)
            return record.body
        message = f"Response '{name.id}' could not be cancelled yet. Try again."
        raise ArchiveUnavailable(message)

    async def _object(self, name: ResponseName) -> bytes:
        run = self.background.find(name)
        if run is not None:
            return run.log.snapshot
        body = await self._archive.get(*name)
        if body is None:
            record = await self._record(name)
            if record is None:
                raise missing(name.id)
            body = record.body
        return body

    async def _included(self, name: ResponseName, body: bytes, include: Collection[str]) -> bytes:
        """Return a response object with what is asked for beside it.

        Args:
            name: The response.
            body: Its object.
            include: What is asked for.
        """
        response = await self._archive.find(*name) if adds(include) else None
        if response is None:
            return body
        if len(body) > THREAD_OVER:
            return await run_in_cpu_thread(partial(with_encrypted_reasoning, body, response))
        return with_encrypted_reasoning(body, response)

    async def _stream(
        self, name: ResponseName, first: int, include: Collection[str] = ()
    ) -> ASGIApp:
        """Return the events of a response from a number on, and those that will come.

        Args:
            name: The response.
            first: The number of the first.
            include: What events that are made again have beside it.
        """
        run = self.background.find(name)
        if run is not None:
            return StreamedAnswer(LogFollower(run.log, first), self._wires)
        record = await self._record(name)
        if record is None:
            log = await EventLog.of(await self._included(name, await self._object(name), include))
            _check_start(first, len(log.events))
            return StreamedAnswer(LogFollower(log, first), self._wires)
        if record.over:
            with translated():
                kept = await self._store.events(name, first)
            count = kept.count or len(await events_of(record.body))
            _check_start(first, count)
        log = EventLog()
        log.decided.set()

        async def carry() -> None:
            await mirror(self._store, name, first, log)

        return StreamedAnswer(LogFollower(log), self._wires, carry)

    async def _record(self, name: ResponseName) -> BackgroundRecord | None:
        with translated():
            return await self._store.get(name)


def missing(response_id: str) -> ClientFault:
    """Return the fault of a response that this key does not have."""
    message = f"There is no response with id '{response_id[:80]}'."
    return ClientFault(message, code="not_found", status=404)


def _check_start(first: int, count: int) -> None:
    """Raise ClientFault if there never was an event before the first one wanted."""
    if first > count:
        message = f"The last event of this response has the number {count - 1}."
        raise ClientFault(message, code="invalid_value", param="starting_after")


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")
