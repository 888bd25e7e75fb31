"""SHELL: the routes of conversations and their items (protocol.md 8)."""

from __future__ import annotations

import secrets
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response
from starlette.routing import Route

from gateway.client.create_fields import check_items, check_metadata
from gateway.client.large_frames import MAX_TEXT
from gateway.http.bodies import read_object
from gateway.http.paging import included, item_list, page_of
from lanes.codec import encode
from lanes.conversations.items import given_items, shown
from lanes.conversations.turn import conversation_not_found
from lanes.cpu_thread import run_in_cpu_thread
from lanes.errors import ClientFault, unreadable_compaction
from lanes.events import new_id
from lanes.history.archive import translated
from lanes.history.entries import COMPACTION, COMPACTION_TRIGGER, Entry, reference
from lanes.long_strings import LongStrings, joined
from lanes.stores.conversations import (
    Addition,
    Conversation,
    ConversationItem,
    ConversationKey,
    ItemBounds,
    ItemNotFound,
    is_ours,
)
from lanes.stores.packing import THREAD_OVER
from lanes.stores.seals import BrokenSealError, is_seal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from gateway.config.settings import Settings
    from lanes.history.archive import Archive
    from lanes.stores.conversations import ConversationStore

    Answer = Callable[[str, Request], Awaitable[ASGIApp]]
    Endpoint = Callable[[Request], Awaitable[ASGIApp]]

#: Items that one request may add.
MAX_ITEMS: Final = 20


class ConversationRequests:
    """Answers what is asked of the conversations of a key.

    Args:
        archive: Where they are, and what opens compaction items.
        settings: The gateway's.
    """

    def __init__(self, archive: Archive, settings: Settings) -> None:
        self._store: ConversationStore = archive.conversations
        self._seals = archive.seals
        self._settings = settings
        self._bounds = ItemBounds(settings.max_chain)

    def routes(self, keyed: Callable[[Answer], Endpoint]) -> list[Route]:
        """Return the routes; `keyed` makes an endpoint of what answers a request of a key."""
        one = "/v1/conversations/{id}"
        return [
            Route("/v1/conversations", keyed(self._create), methods=["POST"]),
            Route(one, keyed(self._get), methods=["GET"]),
            Route(one, keyed(self._update), methods=["POST"]),
            Route(one, keyed(self._delete), methods=["DELETE"]),
            Route(f"{one}/items", keyed(self._list), methods=["GET"]),
            Route(f"{one}/items", keyed(self._add), methods=["POST"]),
            Route(f"{one}/items/{{item}}", keyed(self._item), methods=["GET"]),
            Route(f"{one}/items/{{item}}", keyed(self._remove), methods=["DELETE"]),
        ]

    async def _create(self, key_id: str, request: Request) -> Response:
        body = await self._body(request)
        metadata = _metadata(body)
        given = body.get("items")
        entries = await self._given(key_id, [] if given is None else given)
        items = given_items(entries, (), new_id)
        conversation = Conversation(new_id("conv"), int(time.time()), metadata)
        with translated():
            await self._store.create(key_id, conversation, items)
        return _json(_object(conversation))

    async def _get(self, key_id: str, request: Request) -> Response:
        return _json(_object(await self._conversation(key_id, request)))

    async def _update(self, key_id: str, request: Request) -> Response:
        body = await self._body(request)
        if "metadata" not in body:
            message = "'metadata' is missing: an object of strings, or null for none."
            raise ClientFault(message, code="missing_required_parameter", param="metadata")
        metadata, key = _metadata(body), _named(key_id, request)
        with translated():
            conversation = await self._store.update(key, metadata)
        if conversation is None:
            raise conversation_not_found(key.id)
        return _json(_object(conversation))

    async def _delete(self, key_id: str, request: Request) -> Response:
        key = _named(key_id, request)
        with translated():
            if not await self._store.delete(key):
                raise conversation_not_found(key.id)
        return _json({"id": key.id, "object": "conversation.deleted", "deleted": True})

    async def _list(self, key_id: str, request: Request) -> Response:
        key, include = _named(key_id, request), included(request.query_params)
        page = page_of(request.query_params)
        with translated():
            items = await self._store.page(key, page.one_more)
        if items is None:
            raise conversation_not_found(key.id)
        return await listed(items[: page.limit], include, more=len(items) > page.limit)

    async def _add(self, key_id: str, request: Request) -> Response:
        key, include = _named(key_id, request), included(request.query_params)
        body = await self._body(request)
        if "items" not in body:
            message = "'items' is missing: an array of items to add."
            raise ClientFault(message, code="missing_required_parameter", param="items")
        entries = await self._given(key_id, body["items"])
        with translated():
            taken = await self._taken(key, entries)
            items = given_items(entries, taken, new_id)
            token = secrets.token_hex(8)
            added = await self._store.append(key, Addition(items, token, self._bounds))
        if not added:
            raise conversation_not_found(key.id)
        return await listed(items, include)

    async def _item(self, key_id: str, request: Request) -> Response:
        key, include = _named(key_id, request), included(request.query_params)
        item_id: str = request.path_params["item"]
        with translated():
            item = await self._store.item(key, item_id)
        if item is None:
            await self._conversation(key_id, request)
            raise ItemNotFound(item_id)
        return await _made(partial(_encoded, item, include), [item])

    async def _remove(self, key_id: str, request: Request) -> Response:
        conversation = await self._conversation(key_id, request)
        item_id: str = request.path_params["item"]
        with translated():
            if not await self._store.remove(_named(key_id, request), item_id):
                raise ItemNotFound(item_id)
        return _json(_object(conversation))

    async def _given(self, key_id: str, items: Any) -> list[Entry]:
        """Return the items that a client adds. Raises ClientFault, ArchiveUnavailable."""
        check_items("items", items)
        if len(items) > MAX_ITEMS:
            message = f"'items' has {len(items)} items; at most {MAX_ITEMS} are added at a time."
            raise ClientFault(message, code="invalid_value", param="items")
        for place, item in enumerate(items):
            _check(f"items[{place}]", item)
        for place, item in enumerate(items):
            if item.get("type") == COMPACTION and not await self._opens(key_id, item):
                raise unreadable_compaction(f"items[{place}]")
        return [Entry.of(item) for item in items]

    async def _opens(self, key_id: str, item: dict[str, Any]) -> bool:
        """Return whether a create can be made with a compaction item."""
        seal = item.get("encrypted_content")
        if not is_seal(seal):
            return isinstance(seal, str)  # a backend's own, which only that can read
        try:
            with translated():
                await self._seals.open(key_id, seal)
        except BrokenSealError:
            return False
        return True

    async def _taken(self, key: ConversationKey, entries: Sequence[Entry]) -> set[str]:
        """Return the ids that items of the client's must not have: those of other items."""
        if all(entry.id is None for entry in entries):
            return set()
        kept = await self._store.items(key)
        return {item.id for item in kept or ()}

    async def _body(self, request: Request) -> dict[str, Any]:
        settings = self._settings
        most = settings.max_frame_bytes, settings.max_chain
        body, _ = await read_object(request, *most, max_settings=MAX_TEXT)
        return body

    async def _conversation(self, key_id: str, request: Request) -> Conversation:
        key = _named(key_id, request)
        with translated():
            conversation = await self._store.get(key)
        if conversation is None:
            raise conversation_not_found(key.id)
        return conversation


def _check(name: str, item: dict[str, Any]) -> None:
    kind = item.get("type")
    if not isinstance(kind, str) and (kind is not None or "role" not in item):
        message = f"'{name}.type' must be a string; only messages, which have a role, need none."
        raise ClientFault(message, code="invalid_type", param=f"{name}.type")
    if reference(item) is not None:
        message = f"'{name}' must be an item, not a reference to one."
        raise ClientFault(message, code="invalid_value", param=name)
    if kind == COMPACTION_TRIGGER:
        message = f"'{name}' must be an item to keep; a {kind} ends the input of a create."
        raise ClientFault(message, code="invalid_value", param=name)
    if kind in (None, "message") and not isinstance(item.get("content"), str | list):
        message = f"'{name}.content' must be a string or an array."
        raise ClientFault(message, code="invalid_type", param=f"{name}.content")


def _metadata(body: dict[str, Any]) -> dict[str, Any]:
    check_metadata("metadata", body.get("metadata"))
    return body.get("metadata") or {}


def _named(key_id: str, request: Request) -> ConversationKey:
    """Return the conversation in the path. Raises ClientFault if no store can have it."""
    conversation_id: str = request.path_params["id"]
    if not is_ours(conversation_id):
        raise conversation_not_found(conversation_id)
    return ConversationKey(key_id, conversation_id)


def _object(conversation: Conversation) -> dict[str, Any]:
    return {
        "id": conversation.id,
        "object": "conversation",
        "created_at": conversation.created_at,
        "metadata": conversation.metadata,
    }


async def listed(
    items: Sequence[ConversationItem], include: Collection[str], *, more: bool = False
) -> Response:
    """Answer with items, made by a thread if they are large.

    Args:
        items: The items.
        include: What else is shown of them.
        more: Whether there are further ones.
    """

    def body() -> bytes:
        head, tail = encode(item_list([], [item.id for item in items], more=more)).split(b"[]", 1)
        made = [piece for item in items for piece in (b",", _encoded(item, include))]
        return joined((head, b"[", *made[1:], b"]", tail))

    return await _made(body, items)


async def _made(body: Callable[[], bytes], items: Sequence[ConversationItem]) -> Response:
    """Answer with what is made of items, by a thread if they are large."""
    large = sum(item.size for item in items) > THREAD_OVER
    return _answer(await run_in_cpu_thread(body) if large else body())


def _encoded(item: ConversationItem, include: Collection[str]) -> bytes:
    """Return the JSON of an item as its client reads it, in steps that are all short (D33)."""
    if item.size <= THREAD_OVER:
        return encode(shown(item, include))
    strings = LongStrings()
    return strings.restore(encode(shown(item.cut(strings), include)))


def _json(value: object) -> Response:
    return _answer(encode(value))


def _answer(body: bytes) -> Response:
    return Response(body, media_type="application/json")
