"""Any tree of responses, grown and cut in any order, against a plain dict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

import hypothesis.strategies as st
import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from lanes.history.entries import Entry
from lanes.stores.base import MAX_CHAIN, ChainLink, ChainTooLong, StoredResponse
from lanes.stores.memory import MemoryResponseStore
from lanes.stores.redis import RedisResponseStore
from tests.support.redis_engine import Engine

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

    from lanes.stores.base import ResponseStore

KEYS = st.sampled_from(["key_1", "key_2"])
ENTRIES = st.lists(
    st.builds(
        Entry,
        st.binary(max_size=20) | st.binary(max_size=3).map(lambda some: some * 1500),
        st.none() | st.text(max_size=3),
        st.lists(st.tuples(st.just("call_id"), st.text(max_size=3)), max_size=2).map(tuple),
    ),
    max_size=2,
).map(tuple)


@dataclass(slots=True)
class ModelResponse:
    """A response as it was saved; `chain` is None where nothing can continue it."""

    saved: StoredResponse
    chain: tuple[ChainLink, ...] | None
    deleted: bool = False


class Tree(RuleBasedStateMachine):
    """Two processes on one store, which a subclass names."""

    stores: ClassVar[tuple[ResponseStore, ResponseStore]]
    portal: ClassVar[BlockingPortal]
    ids = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        # A run shares its engine with all others, and its ids with none.
        self.run = uuid4().hex
        self.model: dict[tuple[str, str], ModelResponse] = {}

    @rule(target=ids, key_id=KEYS, which=st.booleans(), before=ENTRIES, after=ENTRIES)
    def begin(
        self, key_id: str, which: bool, before: tuple[Entry, ...], after: tuple[Entry, ...]
    ) -> str:
        return self._save(key_id, which, None, before, after)

    @rule(target=ids, parent=ids, which=st.booleans(), key_id=KEYS, before=ENTRIES, after=ENTRIES)
    def go_on(
        self,
        parent: str,
        which: bool,
        key_id: str,
        before: tuple[Entry, ...],
        after: tuple[Entry, ...],
    ) -> str:
        return self._save(key_id, which, parent, before, after)

    @rule(id=ids, key_id=KEYS, which=st.booleans())
    def save_again(self, id: str, key_id: str, which: bool) -> None:
        modelled = self.model.get((key_id, id))
        if modelled is not None:
            self.portal.call(self.stores[which].save, modelled.saved)

    @rule(id=ids, key_id=KEYS, which=st.booleans())
    def delete(self, id: str, key_id: str, which: bool) -> None:
        modelled = self.model.get((key_id, id))
        there = modelled is not None and not modelled.deleted
        assert self.portal.call(self.stores[which].delete, key_id, id) is there
        if modelled is not None:
            modelled.deleted, modelled.chain = True, None

    @rule(id=ids, key_id=KEYS, which=st.booleans(), limit=st.integers(1, 12))
    def load(self, id: str, key_id: str, which: bool, limit: int) -> None:
        modelled = self.model.get((key_id, id))
        expected = None if modelled is None else modelled.chain
        length = sum(
            max(1, len(link.input_items) + len(link.output_items)) for link in expected or ()
        )
        if length > limit:
            with pytest.raises(ChainTooLong):
                self.portal.call(self.stores[which].load, key_id, id, limit)
        else:
            assert self._load(which, key_id, id) == expected

    @invariant()
    def everything_is_as_in_the_model(self) -> None:
        self.portal.call(self._check)

    async def _check(self) -> None:
        for number, ((key_id, id), modelled) in enumerate(self.model.items()):
            store = self.stores[number % 2]
            body = await store.get(key_id, id)
            assert body == (None if modelled.deleted else modelled.saved.body)
            chain = await store.load(key_id, id, MAX_CHAIN)
            assert (chain and chain.links) == modelled.chain

    def _load(self, which: bool, key_id: str, id: str) -> tuple[ChainLink, ...] | None:
        chain = self.portal.call(self.stores[which].load, key_id, id, MAX_CHAIN)
        return None if chain is None else chain.links

    def _save(
        self,
        key_id: str,
        which: bool,
        parent_id: str | None,
        before: tuple[Entry, ...],
        after: tuple[Entry, ...],
    ) -> str:
        id = f"{self.run}_{len(self.model)}"
        saved = StoredResponse(id, key_id, parent_id, id.encode(), before, after)
        self.portal.call(self.stores[which].save, saved)
        link = ChainLink(id, before, after)
        parent = None if parent_id is None else self.model.get((key_id, parent_id))
        chain: tuple[ChainLink, ...] | None = None
        if parent_id is None:
            chain = (link,)
        elif parent is not None and parent.chain is not None:
            chain = (*parent.chain, link)
        elif parent is not None and parent.deleted:
            # Either is right: whole, if another process has just built on it, or no parent.
            chain = self._load(which, key_id, id)
            assert chain is None or chain[-1] == link
        self.model[key_id, id] = ModelResponse(saved, chain)
        return id


def play(stores: tuple[ResponseStore, ResponseStore], portal: BlockingPortal) -> None:
    """Play some runs on the stores."""
    tree: Any = type("Case", (Tree,), {"stores": stores, "portal": portal})
    run_state_machine_as_test(tree, settings=settings(max_examples=20, stateful_step_count=25))


def test_in_memory() -> None:
    store = MemoryResponseStore()
    with start_blocking_portal() as portal:
        play((store, store), portal)


@pytest.mark.parametrize("kind", ["valkey", "redis"])
def test_on_an_engine(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    engine = Engine(kind, tmp_path_factory.mktemp("e"))
    with start_blocking_portal() as portal:
        portal.call(engine.start)
        try:
            with (
                portal.wrap_async_context_manager(engine.client()) as one,
                portal.wrap_async_context_manager(engine.client()) as two,
            ):
                play((RedisResponseStore(one), RedisResponseStore(two)), portal)
        finally:
            engine.kill()
