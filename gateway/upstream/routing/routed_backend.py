"""One upstream among several: its backend, its turns, and the models it takes."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gateway.logs import ThrottledWarnings
from gateway.upstream.backend import Backend
from gateway.upstream.history.unreadable import UnreadableParts
from gateway.upstream.large_request import MANY_BYTES, MANY_ITEMS
from gateway.upstream.model_list import ModelList
from gateway.upstream.routing.concurrency import ConcurrencyLimit
from gateway.upstream.routing.model_names import asked_as, is_pattern, takes
from gateway.upstream.transport.faults import BackendAnswered
from lanes.cpu_thread import run_in_cpu_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence

    from gateway.upstream.history.refused_items import RefusedPart
    from gateway.upstream.options import UpstreamOptions
    from gateway.upstream.token_counts import CountedRequest
    from gateway.upstream.tracked_stream import BegunStream
    from gateway.upstream.transport.http.outgoing import OutgoingRequest
    from gateway.upstream.transport.http.reply import HttpReply
    from lanes.errors import UpstreamFault
    from lanes.ports import OwnCompaction

#: An upstream that sees the clients' keys has one list of models for each key, this many at most.
_MAX_LISTS: Final = 256
#: Seconds between two log lines about a list that cannot be had.
_NOTICE_EVERY: Final = 600.0


class RoutedBackend:
    """A backend with its turns and its lists of models.

    Args:
        options: The upstream's options.
        spawn: Starts a coroutine function that nobody waits for.
        maker: What it is called as the maker of items.
    """

    def __init__(
        self,
        options: UpstreamOptions,
        spawn: Callable[[Callable[[], Coroutine[Any, Any, None]]], None],
        maker: str,
    ) -> None:
        self.options = options
        self.name = options.name
        self._backend = Backend(options, maker)
        #: What it could not read of earlier histories, once there was something.
        self.unreadable: UnreadableParts | None = None
        limit = options.concurrency
        self._turns = None if limit is None else ConcurrencyLimit(limit)
        self._spawn = spawn
        self._lists: dict[str | None, ModelList] = {}
        self._notices = ThrottledWarnings(logging.getLogger("multilane.upstream"), _NOTICE_EVERY)

    @property
    def dialect(self) -> str | None:
        """The name of its dialect, once that is known."""
        detected = self._backend.detector.dialect
        return None if detected is None else detected.name

    @property
    def takes_what_it_lists(self) -> bool:
        """Whether its table names no models."""
        return not self.options.models

    async def open(
        self, body: Mapping[str, Any], items: Sequence[bytes], headers: Mapping[str, str]
    ) -> BegunStream:
        """Send one request, in its turn if there is a limit (see `Backend.open`).

        Args:
            body: The client's request.
            items: The whole effective input, each item as JSON.
            headers: The client's, as far as the backend may see them.
        """
        if self._turns is None:
            return await self._backend.open(body, items, headers)
        return await self._turns.open(partial(self._backend.open, body, items, headers))

    def learn_unreadable(self, model: str, items: Sequence[bytes], part: RefusedPart) -> None:
        """Remember what it could not read (see `UnreadableParts.learn`).

        Args:
            model: What the model is called here.
            items: The history that was refused.
            part: What of it was left out then.
        """
        self.unreadable = self.unreadable or UnreadableParts()
        self.unreadable.learn(model, items, part)

    async def readable(self, model: str, items: Sequence[bytes]) -> Sequence[bytes]:
        """Return a history without what a model of it could not read before."""
        if self.unreadable is None:
            return items
        if len(items) > MANY_ITEMS or sum(map(len, items)) > MANY_BYTES:
            return await run_in_cpu_thread(self.unreadable.left_out, model, items)
        return self.unreadable.left_out(model, items)

    async def pass_on(self, request: OutgoingRequest) -> HttpReply:
        """Send a request as it is, in its turn if there is a limit (see `Backend.pass_on`)."""
        if self._turns is None:
            return await self._backend.pass_on(request)
        return await self._turns.pass_on(partial(self._backend.pass_on, request))

    async def count(self, asked: CountedRequest) -> int:
        """Ask how many tokens a request has (see `Backend.count`)."""
        return await self._backend.count(asked)

    async def compaction(self, headers: Mapping[str, str], model: str | None) -> OwnCompaction:
        """Return what it does about long histories itself (see `Backend.compaction`)."""
        return await self._backend.compaction(headers, model)

    async def prepare(self, name: str | None) -> None:
        """Detect its dialect before it is needed; `name` is a model of its, if one is known."""
        options = self.options
        exact = (model for model in options.models if not is_pattern(model))
        model = name or options.default or next(exact, None)
        await self._backend.prepare(None if model is None else asked_as(options, model))

    async def aclose(self) -> None:
        """Close all connections to it."""
        await self._backend.aclose()

    def listing(self, headers: Mapping[str, str]) -> ModelList:
        """Return its own list of models, as the client of these headers may see it."""
        shown = headers.get("authorization") if self.options.key is None else None
        listing = self._lists.get(shown)
        if listing is None:
            if len(self._lists) >= _MAX_LISTS:
                del self._lists[next(iter(self._lists))]
            own = {} if shown is None else {"authorization": shown}
            fetch = partial(self._backend.models, own)
            listing = self._lists[shown] = ModelList(fetch, self._spawn, self._log_unlisted)
        return listing

    def names(self, headers: Mapping[str, str]) -> Iterator[tuple[str, int]]:
        """Yield the names it can be asked for, as far as they are known, and when each was made."""
        options, listed = self.options, self.listing(headers).models or {}
        exact = (model for model in options.models if not is_pattern(model))
        default = () if options.default is None else (options.default,)
        for name in (*options.aliases, *exact, *default):
            yield name, listed.get(asked_as(options, name), 0)
        for name, created in listed.items():
            if self.takes_what_it_lists or takes(options, name):
                yield name, created

    @property
    def lists(self) -> bool:
        """Whether its own list says more than its table."""
        return self.takes_what_it_lists or any(map(is_pattern, self.options.models))

    def instead(self, name: str, meant: str, headers: Mapping[str, str]) -> str | None:
        """Return what to ask it for as a fallback; None if it has nothing to offer.

        Args:
            name: What the client asked for.
            meant: What the first upstream calls that.
            headers: The client's.
        """
        options = self.options
        listing = self.listing(headers)
        if self.takes_what_it_lists:
            listing.refresh_if_due()
        for one in (name, meant):
            if takes(options, one):
                return asked_as(options, one)
            if self.takes_what_it_lists and one in (listing.models or ()):
                return one
        if options.default is not None:
            return asked_as(options, options.default)
        return meant if self.takes_what_it_lists else None

    def _log_unlisted(self, fault: UpstreamFault) -> None:
        """Log why there is no list. Never the backend's words: they may quote a key."""
        why = f"it answers {fault.status}" if isinstance(fault, BackendAnswered) else fault.message
        place = f"{self.options.place}/models"
        line = f"{self.options.prefix}Its models cannot be listed: {why} (GET {place})"
        self._notices.warning("unlisted", line)
