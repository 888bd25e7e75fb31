"""The store of conversations in Redis or Valkey, for all processes and beyond restarts.

    <prefix>:conversation:<key_id>:<id>  LIST: see conversation_scripts.py
    <prefix>:conversations:<key_id>      ZSET: the ids of a key, by the time when each ends

Every script has one key, and can run again after a lost reply. All keys expire.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
from anyio.to_thread import run_sync

from lanes.stores.base import STORE_TTL, UnreadableResponse
from lanes.stores.conversation_scripts import (
    ADD,
    BEGIN,
    DONE,
    FIND,
    FULL,
    GONE,
    HEAD,
    LIST,
    NOTE,
    PROLONG,
    REMOVE,
    REWRITE,
    UNKNOWN,
)
from lanes.stores.conversations import (
    MAX_CONVERSATIONS,
    Addition,
    Conversation,
    ConversationFull,
    ConversationItem,
    ConversationKey,
    ItemNotFound,
    TooManyConversations,
)
from lanes.stores.packing import THREAD_OVER, THREAD_UNPACKS_OVER, pack, unpack
from steering.redis.answers import optional_bytes, strings, word
from steering.redis.guard import RedisGuard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.stores.conversations import Page
    from steering.redis.guard import RedisClient
    from steering.redis.scripts import LuaScript

_Arg = str | bytes | int
#: More than any conversation holds.
_NO_BOUND: Final = 1 << 53
#: What stands for no token: the element must not be empty.
_NO_TOKEN: Final = b"-"

_encode: Final = msgspec.msgpack.Encoder().encode
_decode_object: Final = msgspec.msgpack.Decoder(Conversation).decode
_decode_item: Final = msgspec.msgpack.Decoder(ConversationItem).decode


class RedisConversationStore:
    """A ConversationStore on an engine.

    Args:
        client: A client that returns bytes (`decode_responses` off); its maker closes it.
        prefix: What all keys begin with.
        max_conversations: Conversations of one key.
        store_ttl: Seconds that a conversation is kept after each change.
        guard: Makes the calls; one of its own if there is none.
        clock: Seconds since the epoch.
    """

    def __init__(
        self,
        client: RedisClient,
        *,
        prefix: str = "multilane",
        max_conversations: int = MAX_CONVERSATIONS,
        store_ttl: int = STORE_TTL,
        guard: RedisGuard | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client: Any = client
        self._guard = guard or RedisGuard(client)
        self._prefix = prefix
        self._max_conversations = max_conversations
        self._store_ttl = store_ttl
        self._clock = clock

    async def create(
        self, key_id: str, conversation: Conversation, items: Sequence[ConversationItem]
    ) -> None:
        """Keep a new conversation (see `ConversationStore.create`)."""
        now, most, ttl = self._clock(), self._max_conversations, self._store_ttl
        noted: list[_Arg] = [f"{now:f}", f"{now + ttl:f}", conversation.id, most, ttl]
        size = str(sum(item.size for item in items)).encode()
        head = [pack(_encode(conversation)), size, _NO_TOKEN]
        name = self._list_key(ConversationKey(key_id, conversation.id))
        begun: list[_Arg] = [ttl, *head, *await _packed(items)]

        async def ask() -> None:
            noting = await self._run(NOTE, self._index_key(key_id), *noted)
            if word(noting, DONE, FULL) == FULL:
                raise TooManyConversations(most)
            word(await self._run(BEGIN, name, *begun), DONE)

        await self._guard.run(ask, key_id)

    async def get(self, key: ConversationKey) -> Conversation | None:
        """Return a conversation (see `ConversationStore.get`)."""

        async def ask() -> bytes | None:
            return optional_bytes(await self._client.lindex(self._list_key(key), 0))

        packed = await self._guard.run(ask, key.key_id)
        return None if packed is None else _read_object(packed)

    async def update(self, key: ConversationKey, metadata: dict[str, Any]) -> Conversation | None:
        """Replace the metadata (see `ConversationStore.update`)."""
        before = await self.get(key)
        if before is None:
            return None
        after = Conversation(before.id, before.created_at, metadata)
        packed = pack(_encode(after))
        outcome = await self._change(REWRITE, key, packed)
        return after if word(outcome, DONE, GONE) == DONE else None

    async def delete(self, key: ConversationKey) -> bool:
        """Forget a conversation (see `ConversationStore.delete`)."""
        # Asked first, because the guard may delete twice.
        if await self.get(key) is None:
            return False

        async def ask() -> None:
            await self._client.delete(self._list_key(key))
            await self._client.zrem(self._index_key(key.key_id), key.id)

        await self._guard.run(ask, key.key_id)
        return True

    async def append(self, key: ConversationKey, addition: Addition) -> bool:
        """Add items at the end (see `ConversationStore.append`)."""
        items, token, bounds = addition.items, addition.token, addition.bounds
        size = sum(item.size for item in items)
        most = (_NO_BOUND, _NO_BOUND) if bounds is None else (bounds.items, bounds.bytes)
        added: list[_Arg] = [token, size, *most, *await _packed(items)]
        outcome = word(await self._change(ADD, key, *added), DONE, GONE, FULL)
        if outcome == FULL and bounds is not None:
            raise ConversationFull(bounds)
        return outcome == DONE

    async def items(self, key: ConversationKey) -> list[ConversationItem] | None:
        """Return all items in order (see `ConversationStore.items`)."""

        async def ask() -> list[bytes]:
            return strings(await self._client.lrange(self._list_key(key), 0, -1))

        elements = await self._guard.run(ask, key.key_id)
        return None if not elements else await _read_items(elements[HEAD:])

    async def page(self, key: ConversationKey, page: Page) -> list[ConversationItem] | None:
        """Return some items (see `ConversationStore.page`)."""
        after = b"" if page.after is None else _mark(page.after)
        wanted: list[_Arg] = [after, page.limit, "desc" if page.descending else "asc"]
        name = self._list_key(key)
        elements = await self._guard.run(lambda: self._run(LIST, name, *wanted), key.key_id)
        if not isinstance(elements, list):
            if word(elements, GONE, UNKNOWN) == UNKNOWN:
                raise ItemNotFound(page.after or "", "after")
            return None
        items = await _read_items(strings(elements))
        return items[::-1] if page.descending else items

    async def item(self, key: ConversationKey, item_id: str) -> ConversationItem | None:
        """Return an item (see `ConversationStore.item`)."""
        name = self._list_key(key)
        answer = await self._guard.run(lambda: self._run(FIND, name, _mark(item_id)), key.key_id)
        packed = optional_bytes(answer)
        return None if packed is None else (await _read_items([b"", packed]))[0]

    async def remove(self, key: ConversationKey, item_id: str) -> bool:
        """Take an item out (see `ConversationStore.remove`)."""
        item = await self.item(key, item_id)
        if item is None:
            return False
        word(await self._change(REMOVE, key, _mark(item_id), item.size), DONE)
        return True

    async def _change(self, script: LuaScript, key: ConversationKey, *args: _Arg) -> Any:
        """Run a script that changes a conversation, and keep it longer."""
        ends = f"{self._clock() + self._store_ttl:f}"

        async def ask() -> Any:
            outcome = await self._run(script, self._list_key(key), self._store_ttl, *args)
            longer: list[_Arg] = [ends, key.id, self._store_ttl]
            word(await self._run(PROLONG, self._index_key(key.key_id), *longer), DONE)
            return outcome

        return await self._guard.run(ask, key.key_id)

    async def _run(self, script: LuaScript, key: str, *args: _Arg) -> Any:
        return await script.run(self._client, [key], args)

    def _list_key(self, key: ConversationKey) -> str:
        return f"{self._prefix}:conversation:{key.key_id}:{key.id}"

    def _index_key(self, key_id: str) -> str:
        return f"{self._prefix}:conversations:{key_id}"


def _mark(item_id: str) -> bytes:
    return b"." + item_id.encode()


async def _packed(items: Sequence[ConversationItem]) -> list[bytes]:
    """Return the elements of items, packed by a thread if they are large."""
    if sum(item.size for item in items) > THREAD_OVER:
        return await run_sync(_pack_items, items)
    return _pack_items(items)


def _pack_items(items: Sequence[ConversationItem]) -> list[bytes]:
    return [part for item in items for part in (_mark(item.id), pack(_encode(item)))]


async def _read_items(elements: Sequence[bytes]) -> list[ConversationItem]:
    """Return the items in elements, unpacked by a thread if they are large."""
    if sum(map(len, elements)) > THREAD_UNPACKS_OVER:
        return await run_sync(_unpack_items, elements[1::2])
    return _unpack_items(elements[1::2])


def _unpack_items(packed: Sequence[bytes]) -> list[ConversationItem]:
    try:
        return [_decode_item(unpack(data)) for data in packed]
    except msgspec.DecodeError as error:
        raise UnreadableResponse from error


def _read_object(packed: bytes) -> Conversation:
    try:
        return _decode_object(unpack(packed))
    except msgspec.DecodeError as error:
        raise UnreadableResponse from error
