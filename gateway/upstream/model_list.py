"""The models that an upstream lists itself, kept for a while and asked for once at a time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import anyio

from gateway.upstream.transport.faults import refusal, unreachable
from lanes.codec import decode_lenient
from lanes.errors import UpstreamFault

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from gateway.upstream.transport.http.client import FetchedAnswer

#: Seconds for an upstream to list its models.
TIMEOUT: Final = 3.0
#: Seconds for which a list is good, and after which one that was not to be had is asked for again.
FRESH: Final = 60.0
AGAIN: Final = 5.0
_MAX_MODELS: Final = 10_000


def read(answer: FetchedAnswer) -> dict[str, int]:
    """Ids, in order, and when each was made (0 where that is not said). Raises UpstreamFault."""
    if not 200 <= answer.status < 300:
        raise refusal(answer.status, answer.headers, answer.body)
    listed = entries(answer.body)
    if listed is None:
        raise unreachable("The backend's list of models is none.")
    found: dict[str, int] = {}
    for entry in listed:
        name = entry.get("id")
        if isinstance(name, str) and name:
            found.setdefault(name, _created(entry))
    return found


def entries(body: bytes) -> list[dict[str, Any]] | None:
    """What a list of models tells of each; None for a body that is no list."""
    try:
        value = decode_lenient(body)
    except ValueError:
        return None
    listed = value.get("data") if isinstance(value, dict) else value
    if not isinstance(listed, list):
        return None
    return [entry for entry in listed[:_MAX_MODELS] if isinstance(entry, dict)]


def _created(entry: dict[str, Any]) -> int:
    created = entry.get("created")
    if not isinstance(created, int | float) or isinstance(created, bool):
        return 0
    return int(created) if 0 <= created < 1e12 else 0


class ModelList:
    """One list; `found` is None as long as it was never had.

    `fetch` asks for it, `spawn` starts a coroutine function that nobody waits for, `clock` counts
    seconds. `trouble` hears why it was not to be had.
    """

    def __init__(
        self,
        fetch: Callable[[], Coroutine[Any, Any, dict[str, int]]],
        spawn: Callable[[Callable[[], Coroutine[Any, Any, None]]], None],
        trouble: Callable[[UpstreamFault], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.found: dict[str, int] | None = None
        self._fetch = fetch
        self._spawn = spawn
        self._trouble = trouble
        self._clock = clock
        self._due = -1.0
        self._tried = False
        self._failed = False
        self._asking: anyio.Event | None = None

    def ask(self) -> None:
        """Ask for it in passing if that is due."""
        if self._asking is None and self._clock() >= self._due:
            self._spawn(self._refresh)
            self._asking = anyio.Event()

    async def look(self, *, wait: bool = False) -> dict[str, int] | None:
        """What is known, at once; only the very first answer is waited for.

        With `wait` any answer is, unless the upstream failed to give one the last time.
        """
        self.ask()
        if self._asking is not None and (not self._tried or (wait and not self._failed)):
            await self._asking.wait()
        return self.found

    async def _refresh(self) -> None:
        failed = True  # also when we are cancelled
        try:
            self.found = await self._fetch()
            failed = False
        except UpstreamFault as fault:
            self._trouble(fault)
        finally:
            self._tried, self._failed = True, failed
            self._due = self._clock() + (AGAIN if failed else FRESH)
            asking, self._asking = self._asking, None
            if asking is not None:
                asking.set()
