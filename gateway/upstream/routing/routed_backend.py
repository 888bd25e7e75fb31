"""One upstream among several: what it takes, what it lists, and when it has room."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gateway.logs import ThrottledWarnings
from gateway.upstream.backend import Backend
from gateway.upstream.model_list import ModelList
from gateway.upstream.routing.concurrency import ConcurrencyLimit
from gateway.upstream.routing.model_names import asked_as, is_pattern, takes
from gateway.upstream.transport.faults import BackendAnswered

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence

    from gateway.config.upstream_settings import UpstreamSettings
    from gateway.upstream.backend import PeekableStream
    from lanes.errors import UpstreamFault

#: Lists are one a client's key where an upstream is shown that; of so many keys they are kept.
_MAX_LISTS: Final = 256
#: Seconds between two lines on a list that is not to be had.
_NOTICE_EVERY: Final = 600.0


class RoutedBackend:
    """A backend with its turns and its lists; `spawn` starts what nobody waits for."""

    def __init__(
        self,
        settings: UpstreamSettings,
        spawn: Callable[[Callable[[], Coroutine[Any, Any, None]]], None],
    ) -> None:
        self.settings = settings
        self.name = settings.name
        self._backend = Backend(settings)
        self._turns = (
            None if settings.concurrency is None else ConcurrencyLimit(settings.concurrency)
        )
        self._spawn = spawn
        self._lists: dict[str | None, ModelList] = {}
        self._notices = ThrottledWarnings(logging.getLogger("multilane.upstream"), _NOTICE_EVERY)

    @property
    def takes_what_it_lists(self) -> bool:
        """Whether its table names no models."""
        return not self.settings.models

    async def open(
        self, body: Mapping[str, Any], items: Sequence[bytes], headers: Mapping[str, str]
    ) -> PeekableStream:
        """Send one request, in its turn (see lanes.ports.Upstream)."""
        if self._turns is None:
            return await self._backend.open(body, items, headers)
        return await self._turns.open(partial(self._backend.open, body, items, headers))

    async def prepare(self, name: str | None) -> None:
        """Find out its dialect before it is needed; `name` is a model of its, if one is known."""
        settings = self.settings
        exact = (model for model in settings.models if not is_pattern(model))
        known = name or settings.default or next(exact, None)
        await self._backend.prepare(None if known is None else asked_as(settings, known))

    async def aclose(self) -> None:
        """Close all connections to it."""
        await self._backend.aclose()

    def listing(self, headers: Mapping[str, str]) -> ModelList:
        """Its own list of models, as the client of these headers may see it."""
        shown = headers.get("authorization") if self.settings.key is None else None
        listing = self._lists.get(shown)
        if listing is None:
            if len(self._lists) >= _MAX_LISTS:
                del self._lists[next(iter(self._lists))]
            own = {} if shown is None else {"authorization": shown}
            fetch = partial(self._backend.models, own)
            listing = self._lists[shown] = ModelList(fetch, self._spawn, self._unlisted)
        return listing

    def names(self, headers: Mapping[str, str]) -> Iterator[tuple[str, int]]:
        """What it can be asked for as far as that is known, and when each was made."""
        settings, listed = self.settings, self.listing(headers).found or {}
        exact = (model for model in settings.models if not is_pattern(model))
        default = () if settings.default is None else (settings.default,)
        for name in (*settings.aliases, *exact, *default):
            yield name, listed.get(asked_as(settings, name), 0)
        for name, created in listed.items():
            if self.takes_what_it_lists or takes(settings, name):
                yield name, created

    @property
    def lists(self) -> bool:
        """Whether its own list says more than its table."""
        return self.takes_what_it_lists or any(map(is_pattern, self.settings.models))

    def instead(self, name: str, meant: str, headers: Mapping[str, str]) -> str | None:
        """What to ask it for as a fallback; None if it has nothing to offer.

        `name` is what the client asked for, `meant` what the first upstream calls that.
        """
        settings = self.settings
        listing = self.listing(headers)
        if self.takes_what_it_lists:
            listing.ask()
        for one in (name, meant):
            if takes(settings, one):
                return asked_as(settings, one)
            if self.takes_what_it_lists and one in (listing.found or ()):
                return one
        if settings.default is not None:
            return asked_as(settings, settings.default)
        return meant if self.takes_what_it_lists else None

    def _unlisted(self, fault: UpstreamFault) -> None:
        """Never the backend's words: it may quote a key."""
        why = f"it answers {fault.status}" if isinstance(fault, BackendAnswered) else fault.message
        line = f"{self.settings.prefix}Its models cannot be listed: {why} (GET {self._place})"
        self._notices.warning("unlisted", line)

    @property
    def _place(self) -> str:
        return f"{self.settings.place}/models"
