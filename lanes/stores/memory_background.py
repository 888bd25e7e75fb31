"""The store of responses in the background in memory, for as long as the process lives."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from lanes.stores.background import EVENTS_AT_ONCE, BackgroundRecord, KeptEvents, kept_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.stores.background import Progress, ResponseInput, ResponseName

#: Bytes of finished responses that are kept.
MAX_BYTES: Final = 64 * 1024 * 1024


@dataclass(slots=True)
class _Kept:
    """A response in memory, and when it is forgotten."""

    body: bytes
    made_from: ResponseInput | None
    until: float = 0.0
    over: bool = False
    events: list[bytes] = field(default_factory=list)
    size: int = 0


class MemoryBackgroundStore:
    """A BackgroundStore in memory: only this process reads it, so nobody is ever taken for dead.

    Args:
        max_bytes: Bytes of finished responses; beyond them the oldest are forgotten.
        clock: Returns seconds.
    """

    def __init__(
        self, max_bytes: int = MAX_BYTES, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_bytes, self._clock = max_bytes, clock
        self._running: dict[ResponseName, _Kept] = {}
        # In the order in which they ended.
        self._over: OrderedDict[ResponseName, _Kept] = OrderedDict()
        self._asked: dict[ResponseName, None] = {}
        self._bytes = 0

    @property
    def bytes_held(self) -> int:
        """Bytes of the finished responses."""
        return self._bytes

    async def open(
        self, name: ResponseName, body: bytes, made_from: ResponseInput | None = None
    ) -> None:
        """Enter a response (see `BackgroundStore.open`)."""
        self._running.setdefault(name, _Kept(body, made_from))

    async def advance(self, name: ResponseName, progress: Progress) -> bool:
        """Keep its next events (see `BackgroundStore.advance`)."""
        kept = self._running.get(name)
        if kept is None:
            return False
        kept.body = progress.body
        if len(kept.events) == progress.first:
            kept.events += progress.events
        return True

    async def finish(self, name: ResponseName, body: bytes) -> bool:
        """Keep its final object (see `BackgroundStore.finish`)."""
        kept = self._running.pop(name, None)
        self._asked.pop(name, None)
        if kept is None:
            return name in self._over and self._over[name].body == body
        kept.body, kept.over, kept.until = body, True, self._clock() + kept_for(body)
        kept.size = len(body) + sum(map(len, kept.events))
        kept.size += 0 if kept.made_from is None else kept.made_from.size
        self._bytes += kept.size
        self._over[name] = kept
        self._shrink()
        return True

    async def get(self, name: ResponseName) -> BackgroundRecord | None:
        """Return how a response is (see `BackgroundStore.get`)."""
        kept = self._find(name)
        return None if kept is None else BackgroundRecord(kept.body, kept.over)

    async def made_from(self, name: ResponseName) -> ResponseInput | None:
        """Return what a response was made from (see `BackgroundStore.made_from`)."""
        kept = self._find(name)
        return None if kept is None else kept.made_from

    async def events(self, name: ResponseName, first: int) -> KeptEvents:
        """Return events of a response (see `BackgroundStore.events`)."""
        kept = self._find(name)
        events = [] if kept is None else kept.events
        return KeptEvents(events[first : first + EVENTS_AT_ONCE], len(events))

    async def ask_to_cancel(self, name: ResponseName) -> None:
        """Ask to cancel a response (see `BackgroundStore.ask_to_cancel`)."""
        if name in self._running:
            self._asked[name] = None

    async def asked_to_cancel(self) -> list[ResponseName]:
        """Return which responses are to be cancelled (see `BackgroundStore.asked_to_cancel`)."""
        return list(self._asked)

    async def delete(self, name: ResponseName) -> bool:
        """Forget a response (see `BackgroundStore.delete`)."""
        was_there = self._find(name) is not None
        self._running.pop(name, None)
        self._asked.pop(name, None)
        if name in self._over:
            self._forget(name)
        return was_there

    def _find(self, name: ResponseName) -> _Kept | None:
        if name in self._over and self._over[name].until <= self._clock():
            self._forget(name)
        return self._running.get(name) or self._over.get(name)

    def _shrink(self) -> None:
        now = self._clock()
        while self._over:
            name, oldest = next(iter(self._over.items()))
            if oldest.until > now and self._bytes <= self._max_bytes:
                return
            self._forget(name)

    def _forget(self, name: ResponseName) -> None:
        self._bytes -= self._over.pop(name).size
