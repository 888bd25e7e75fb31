"""Responses that run in the background: how each one is, its events, and who is asked to end it."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from lanes.codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Seconds for which a record is kept that nobody writes any more: as long as a stored response.
RECORD_TTL: Final = 30 * 24 * 3600
#: Seconds for which the events of a response are kept after the last of them.
EVENTS_TTL: Final = 3600
#: Bytes of finished responses that are kept in memory.
MAX_BYTES: Final = 64 * 1024 * 1024
#: Events that one call returns at most.
EVENTS_AT_ONCE: Final = 1000
#: Why a response failed whose process was told to stop.
STOPPING: Final = "The gateway is shutting down; send this request again."
#: Why one did whose process is gone.
_GONE: Final = "The gateway that ran this response ended."
_ENDINGS: Final = (STOPPING, _GONE)


class _Error(msgspec.Struct):
    """Why a response failed."""

    message: str = ""


class _End(msgspec.Struct):
    """A response object, of which only is wanted how it ended."""

    status: str
    error: _Error | None = None


_end: Final = msgspec.json.Decoder(_End).decode


class ResponseName(NamedTuple):
    """Which response: the API key whose it is, and its id."""

    key_id: str
    id: str


@dataclass(frozen=True, slots=True)
class Progress:
    """What has come of a response since it was last written.

    Attributes:
        body: The response object as it is now.
        first: The number of the first of the events.
        events: The events, in order.
    """

    body: bytes
    first: int
    events: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class BackgroundRecord:
    """How a response in the background is.

    Attributes:
        body: The response object as it is now.
        over: Whether it will not change any more.
    """

    body: bytes
    over: bool


@dataclass(frozen=True, slots=True)
class KeptEvents:
    """Some events of a response, and how many are kept in all: none if they are no longer kept."""

    events: list[bytes]
    count: int


class BackgroundStore(Protocol):
    """Keeps responses in the background by API key, for the processes that run them and all others.

    Every method raises StoreUnavailable, within two seconds, when the store is away.
    """

    async def open(self, name: ResponseName, body: bytes) -> None:
        """Enter a response that this process runs."""

    async def advance(self, name: ResponseName, progress: Progress) -> bool:
        """Keep how a response is now, and its next events. Idempotent by the number of the first.

        Returns:
            Whether it still runs: false if it was deleted, or taken for dead.
        """

    async def finish(self, name: ResponseName, body: bytes) -> bool:
        """Keep the final object of a response; the first end wins. Idempotent.

        Returns:
            Whether this is its end: false if it was deleted, or taken for dead.
        """

    async def get(self, name: ResponseName) -> BackgroundRecord | None:
        """Return how a response is; None if the key has no such response in the background.

        One whose process is gone is over: it failed (protocol.md 7).
        """

    async def events(self, name: ResponseName, first: int) -> KeptEvents:
        """Return events of a response."""

    async def ask_to_cancel(self, name: ResponseName) -> None:
        """Ask the process that runs a response to cancel it. Idempotent."""

    async def asked_to_cancel(self) -> list[ResponseName]:
        """Return which responses of this process others want cancelled, by API key and id."""

    async def delete(self, name: ResponseName) -> bool:
        """Forget a response and its events; return False if the key has no such response."""


def kept_for(body: bytes) -> int:
    """Return the seconds for which a record is kept after its end.

    A failed response is kept here alone; any other is among the stored ones, too.
    """
    return RECORD_TTL if decode(body)["status"] == "failed" else EVENTS_TTL


def failed_with_its_process(body: bytes) -> bytes:
    """Return the response object of a response whose process is gone."""
    error = {"code": "server_error", "message": _GONE}
    return encode({**decode(body), "status": "failed", "error": error})


def ended_with_its_process(body: bytes) -> bool:
    """Return whether a response failed only because a gateway stopped, or is gone."""
    end = _end(body)
    return (
        end.status == "failed" and end.error is not None and end.error.message.startswith(_ENDINGS)
    )


@dataclass(slots=True)
class _Kept:
    """A response in memory, and when it is forgotten."""

    body: bytes
    until: float
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

    async def open(self, name: ResponseName, body: bytes) -> None:
        """Enter a response (see `BackgroundStore.open`)."""
        self._running.setdefault(name, _Kept(body, 0.0))

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
        self._bytes += kept.size
        self._over[name] = kept
        self._shrink()
        return True

    async def get(self, name: ResponseName) -> BackgroundRecord | None:
        """Return how a response is (see `BackgroundStore.get`)."""
        kept = self._find(name)
        return None if kept is None else BackgroundRecord(kept.body, kept.over)

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
