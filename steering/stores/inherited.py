"""Submissions of an owner that has records of earlier ones, too: each is found when it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from steering.stores.base import SteerRecord, SteerStore, Verdict

    #: Returns under which keys an owner's records are, its own first.
    Homes = Callable[[str], tuple[str, ...]]


class InheritedSteerStore:
    """Implements `SteerStore` over another one: new records are the owner's own.

    Args:
        store: Where submissions are kept.
        homes: Under which keys an owner's are.
    """

    def __init__(self, store: SteerStore, homes: Homes) -> None:
        self._store = store
        self._homes = homes

    async def append(self, record: SteerRecord) -> None:
        """Write a submission down (see `SteerStore.append`)."""
        await self._store.append(record)

    async def settle(self, verdict: Verdict) -> None:
        """Move submissions on to a state (see `SteerStore.settle`)."""
        await self._store.settle(verdict)

    async def of_response(self, key_id: str, response_id: str) -> list[SteerRecord]:
        """Return the submissions of a response, whichever home they have (see `SteerStore`)."""
        records: list[SteerRecord] = []
        for home in self._homes(key_id):
            records += await self._store.of_response(home, response_id)
        return sorted(records, key=lambda record: record.created_at)

    async def get(self, key_id: str, steer_id: str) -> SteerRecord | None:
        """Return one submission, whichever home it has (see `SteerStore.get`)."""
        for home in self._homes(key_id):
            record = await self._store.get(home, steer_id)
            if record is not None:
                return record
        return None

    async def aclose(self) -> None:
        """Let go of the store."""
        await self._store.aclose()
