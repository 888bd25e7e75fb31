"""Stores of an owner that has records of earlier ones, too: whatever is read is found in each.

A tenant begins as one or several keys without a name, under whose ids its records are. New ones are
kept under the tenant, but what continues a record stays where that is: a chain has one home.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lanes.stores.background import BackgroundRecord, KeptEvents, ResponseName
from lanes.stores.conversations import ConversationKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from lanes.stores.background import BackgroundStore, Progress, ResponseInput
    from lanes.stores.base import ResponseStore, StoredChain, StoredResponse
    from lanes.stores.conversations import (
        Addition,
        Conversation,
        ConversationItem,
        ConversationStore,
        Page,
    )
    from steering.stores.inherited import Homes

T = TypeVar("T")
#: Responses of which is remembered that they are not at their owner's own home.
_REMEMBERED: Final = 4096


async def _first(homes: Sequence[str], ask: Callable[[str], Awaitable[T]]) -> T:
    """Return the first answer that is something, or the last one."""
    *before, last = homes
    for home in before:
        answer = await ask(home)
        if answer:
            return answer
    return await ask(last)


class InheritedResponseStore:
    """Implements `ResponseStore` over another one.

    Args:
        store: Where responses are kept.
        homes: Under which keys an owner's are.
    """

    def __init__(self, store: ResponseStore, homes: Homes) -> None:
        self._store = store
        self._homes = homes
        self._away: OrderedDict[tuple[str, str], str] = OrderedDict()

    async def save(self, response: StoredResponse) -> None:
        """Save a response where its parent is (see `ResponseStore.save`)."""
        owner, parent_id = response.key_id, response.parent_id
        home = owner if parent_id is None else await self._home(owner, parent_id)
        await self._store.save(replace(response, key_id=home))
        self._remember(owner, response.id, home)

    async def load(self, key_id: str, response_id: str, max_items: int) -> StoredChain | None:
        """Return a response and all it builds on (see `ResponseStore.load`)."""
        return await _first(
            self._homes(key_id), lambda home: self._store.load(home, response_id, max_items)
        )

    async def get(self, key_id: str, response_id: str) -> bytes | None:
        """Return a response object (see `ResponseStore.get`)."""
        return await _first(self._homes(key_id), lambda home: self._store.get(home, response_id))

    async def delete(self, key_id: str, response_id: str) -> bool:
        """Forget a response (see `ResponseStore.delete`)."""
        return await _first(self._homes(key_id), lambda home: self._store.delete(home, response_id))

    async def aclose(self) -> None:
        """Let go of the store."""
        await self._store.aclose()

    async def _home(self, owner: str, response_id: str) -> str:
        """Return under which key a response is; the owner's own if it is nowhere."""
        homes = self._homes(owner)
        known = self._away.get((owner, response_id))
        if known in homes:
            return known
        for home in homes if len(homes) > 1 else ():
            if await self._store.get(home, response_id) is not None:
                return home
        return owner

    def _remember(self, owner: str, response_id: str, home: str) -> None:
        if home != owner:
            self._away[owner, response_id] = home
            if len(self._away) > _REMEMBERED:
                self._away.popitem(last=False)


class InheritedBackgroundStore:
    """Implements `BackgroundStore` over another one.

    Args:
        store: Where responses in the background are kept.
        homes: Under which keys an owner's are.
    """

    def __init__(self, store: BackgroundStore, homes: Homes) -> None:
        self._store = store
        self._homes = homes

    async def open(
        self, name: ResponseName, body: bytes, made_from: ResponseInput | None = None
    ) -> None:
        """Enter a response (see `BackgroundStore.open`)."""
        await self._store.open(name, body, made_from)

    async def advance(self, name: ResponseName, progress: Progress) -> bool:
        """Keep how a response is now (see `BackgroundStore.advance`)."""
        return await self._store.advance(name, progress)

    async def finish(self, name: ResponseName, body: bytes) -> bool:
        """Keep the final object of a response (see `BackgroundStore.finish`)."""
        return await self._store.finish(name, body)

    async def get(self, name: ResponseName) -> BackgroundRecord | None:
        """Return how a response is (see `BackgroundStore.get`)."""
        return await self._anywhere(name, self._store.get)

    async def made_from(self, name: ResponseName) -> ResponseInput | None:
        """Return what a response was made from (see `BackgroundStore.made_from`)."""
        return await self._anywhere(name, self._store.made_from)

    async def events(self, name: ResponseName, first: int) -> KeptEvents:
        """Return events of a response (see `BackgroundStore.events`)."""
        kept = KeptEvents([], 0)
        for one in self._names(name):
            kept = await self._store.events(one, first)
            if kept.count:
                break
        return kept

    async def ask_to_cancel(self, name: ResponseName) -> None:
        """Ask for an end by the name that the running process knows (see `BackgroundStore`)."""
        for one in self._names(name):
            if await self._store.get(one) is not None:
                await self._store.ask_to_cancel(one)

    async def asked_to_cancel(self) -> list[ResponseName]:
        """Return which responses others want cancelled (see `BackgroundStore`)."""
        return await self._store.asked_to_cancel()

    async def delete(self, name: ResponseName) -> bool:
        """Forget a response and its events (see `BackgroundStore.delete`)."""
        return await self._anywhere(name, self._store.delete)

    async def _anywhere(self, name: ResponseName, ask: Callable[[ResponseName], Awaitable[T]]) -> T:
        return await _first(self._homes(name.key_id), lambda home: ask(ResponseName(home, name.id)))

    def _names(self, name: ResponseName) -> list[ResponseName]:
        return [ResponseName(home, name.id) for home in self._homes(name.key_id)]


class InheritedConversationStore:
    """Implements `ConversationStore` over another one.

    Args:
        store: Where conversations are kept.
        homes: Under which keys an owner's are.
    """

    def __init__(self, store: ConversationStore, homes: Homes) -> None:
        self._store = store
        self._homes = homes

    async def create(
        self, key_id: str, conversation: Conversation, items: Sequence[ConversationItem]
    ) -> None:
        """Keep a new conversation (see `ConversationStore.create`)."""
        await self._store.create(key_id, conversation, items)

    async def get(self, key: ConversationKey) -> Conversation | None:
        """Return a conversation (see `ConversationStore.get`)."""
        return await self._anywhere(key, self._store.get)

    async def update(self, key: ConversationKey, metadata: dict[str, Any]) -> Conversation | None:
        """Replace the metadata (see `ConversationStore.update`)."""
        return await self._anywhere(key, lambda home: self._store.update(home, metadata))

    async def delete(self, key: ConversationKey) -> bool:
        """Forget a conversation (see `ConversationStore.delete`)."""
        return await self._anywhere(key, self._store.delete)

    async def append(self, key: ConversationKey, addition: Addition) -> bool:
        """Add items at the end (see `ConversationStore.append`)."""
        return await self._anywhere(key, lambda home: self._store.append(home, addition))

    async def items(self, key: ConversationKey) -> list[ConversationItem] | None:
        """Return all items (see `ConversationStore.items`)."""
        found = None
        for home in self._keys(key):
            found = await self._store.items(home)
            if found is not None:
                break
        return found

    async def page(self, key: ConversationKey, page: Page) -> list[ConversationItem] | None:
        """Return some items (see `ConversationStore.page`)."""
        found = None
        for home in self._keys(key):
            found = await self._store.page(home, page)
            if found is not None:
                break
        return found

    async def item(self, key: ConversationKey, item_id: str) -> ConversationItem | None:
        """Return an item (see `ConversationStore.item`)."""
        return await self._anywhere(key, lambda home: self._store.item(home, item_id))

    async def remove(self, key: ConversationKey, item_id: str) -> bool:
        """Take an item out (see `ConversationStore.remove`)."""
        return await self._anywhere(key, lambda home: self._store.remove(home, item_id))

    async def _anywhere(
        self, key: ConversationKey, ask: Callable[[ConversationKey], Awaitable[T]]
    ) -> T:
        return await _first(
            self._homes(key.key_id), lambda home: ask(ConversationKey(home, key.id))
        )

    def _keys(self, key: ConversationKey) -> list[ConversationKey]:
        return [ConversationKey(home, key.id) for home in self._homes(key.key_id)]
