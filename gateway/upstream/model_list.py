"""The models that a backend lists: read from its answer, kept for a while, refreshed on demand."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import anyio

from gateway.upstream.transport.faults import answer_fault, backend_fault
from lanes.codec import decode_lenient
from lanes.errors import UpstreamFault

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from gateway.upstream.transport.http.client import FetchedAnswer

#: Seconds for the answer of `/models`.
TIMEOUT: Final = 3.0
#: Seconds for which a list is fresh, and after which a failed request is repeated.
FRESH_SECONDS: Final = 60.0
RETRY_SECONDS: Final = 5.0
_MAX_MODELS: Final = 10_000
_MAX_ID_CHARS: Final = 512


def parse_models(answer: FetchedAnswer) -> dict[str, int]:
    """Return id -> time of creation (0 if it is not given), in order, without ids of any length.

    Raises UpstreamFault if the answer is not a list of models.
    """
    if not 200 <= answer.status < 300:
        raise answer_fault(answer.status, answer.headers, answer.body)
    entries = model_entries(answer.body)
    if entries is None:
        raise backend_fault("The backend's list of models is none.")
    models: dict[str, int] = {}
    for entry in entries:
        name = entry.get("id")
        if isinstance(name, str) and 0 < len(name) <= _MAX_ID_CHARS:
            models.setdefault(name, _created(entry))
    return models


def model_entries(body: bytes) -> list[dict[str, Any]] | None:
    """Return the objects of a list of models; None if the body is not a list."""
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
    """The list of one backend; `models` is None until the first list has arrived.

    Args:
        fetch: Asks the backend for the list.
        spawn: Starts a coroutine function that nobody waits for.
        on_failure: Takes the fault of a failed request.
        clock: The time in seconds.
    """

    def __init__(
        self,
        fetch: Callable[[], Coroutine[Any, Any, dict[str, int]]],
        spawn: Callable[[Callable[[], Coroutine[Any, Any, None]]], None],
        on_failure: Callable[[UpstreamFault], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.models: dict[str, int] | None = None
        self._fetch = fetch
        self._spawn = spawn
        self._on_failure = on_failure
        self._clock = clock
        self._due_at = -1.0
        self._tried = False
        self._failed = False
        self._request: anyio.Event | None = None

    def refresh_if_due(self) -> None:
        """Start a request for the list if it is no longer fresh; do not wait for it."""
        if self._request is None and self._clock() >= self._due_at:
            self._spawn(self._refresh)
            self._request = anyio.Event()

    async def get(self, *, wait: bool = False) -> dict[str, int] | None:
        """Return the latest list at once; wait only for the very first answer.

        With `wait` it waits for any answer under way, unless the last request failed.
        """
        self.refresh_if_due()
        if self._request is not None and (not self._tried or (wait and not self._failed)):
            await self._request.wait()
        return self.models

    async def _refresh(self) -> None:
        failed = True  # also when this task is cancelled
        try:
            self.models = await self._fetch()
            failed = False
        except UpstreamFault as fault:
            self._on_failure(fault)
        finally:
            self._tried, self._failed = True, failed
            self._due_at = self._clock() + (RETRY_SECONDS if failed else FRESH_SECONDS)
            request, self._request = self._request, None
            if request is not None:
                request.set()
