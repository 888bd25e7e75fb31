"""All upstreams as one: which one takes a request, who steps in for it, what can be asked for."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio

from gateway.logs import ThrottledWarnings
from gateway.upstream.history import sealed
from gateway.upstream.routing.model_names import ModelClaims, asked_as
from gateway.upstream.routing.routed_backend import RoutedBackend
from gateway.upstream.transport.faults import BackendAnswered, unreachable
from lanes.codec import decode_lenient
from lanes.errors import ClientFault, UpstreamFault
from lanes.stream.backend_errors import ERROR_CODES, Reported, reported

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from anyio.abc import TaskGroup, TaskStatus

    from gateway.config.upstream_settings import UpstreamSettings
    from gateway.upstream.backend import PeekableStream
    from lanes.ports import Event, Stream

log = logging.getLogger("multilane.upstream")

#: So many models are named to a client that asked for another.
_MAX_NAMED: Final = 20
#: Codes of a `response.failed` that are the backend's trouble; others are about the request.
_TROUBLES: Final = frozenset({"server_error", "rate_limit_exceeded"})


class Router:
    """Implements lanes.ports.Upstream for any number of backends. Keep `run` running."""

    def __init__(self, upstreams: Sequence[UpstreamSettings]) -> None:
        self._members = [RoutedBackend(one, self._spawn) for one in upstreams]
        self._named = {member.name: member for member in self._members}
        self._claims = ModelClaims(upstreams)
        self._open = [member for member in self._members if member.takes_what_it_lists]
        self._notices = ThrottledWarnings(log)
        self._tasks: TaskGroup | None = None

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Ask upstreams for their models when that is due, until cancelled."""
        try:
            async with anyio.create_task_group() as self._tasks:
                task_status.started()
                await anyio.sleep_forever()
        finally:
            self._tasks = None

    async def prepare(self, model: str | None, *, forwards: bool) -> None:
        """Find out all dialects before they are needed; who is away is asked again when needed.

        `model` is that of creates that name none. With `forwards` upstreams are shown the clients'
        keys, so those without a key of their own are not asked before a client comes.
        """
        async with anyio.create_task_group() as tasks:
            for member in self._members:
                if not forwards or member.settings.key is not None:
                    mine = model is not None and self._taker(model, {}) is member
                    named = model if mine else None
                    tasks.start_soon(_by_itself, partial(member.prepare, named))

    async def open(
        self, body: Mapping[str, Any], items: Sequence[bytes], headers: Mapping[str, str]
    ) -> Stream:
        """Send one request to the upstream of its model, or to one that steps in for it.

        Raises ClientFault for a model that nobody takes, else UpstreamFault (D23).
        """
        ways = await self._ways(body, headers)
        faults: list[UpstreamFault] = []
        for at, (member, model) in enumerate(ways, 1):
            try:
                stream = await self._ask(member, {**body, "model": model}, items, headers)
                await _look_into(stream, last=at == len(ways))
            except UpstreamFault as fault:
                faults.append(fault)
                if not _passes(fault):
                    break
            except ClientFault:
                if not faults:
                    raise
                # That one who steps in has no words for it is not the client's doing.
            else:
                if faults:
                    self._stepped_in(member, ways[0][0], faults[0])
                return stream
        raise _most_telling(faults)

    async def models(self, headers: Mapping[str, str]) -> list[dict[str, Any]]:
        """What can be asked for, as OpenAI lists models. An upstream that is away delays nothing.

        Each is owned by the upstream that takes it. Raises UpstreamFault while shutting down.
        """
        listings = [member.listing(headers) for member in self._members if member.lists]
        for listing in listings:
            listing.ask()
        for listing in listings:
            await listing.look()
        found: dict[str, dict[str, Any]] = {}
        for member in self._members:
            for name, created in member.names(headers):
                if name not in found and self._taker(name, headers) is member:
                    entry = {"id": name, "object": "model", "created": created}
                    found[name] = {**entry, "owned_by": member.name}
        return list(found.values())

    async def aclose(self) -> None:
        """Close all connections to all of them."""
        for member in self._members:
            await member.aclose()

    async def _ways(
        self, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> list[tuple[RoutedBackend, str]]:
        """Who is to be asked, in order, and for what. Raises ClientFault if nobody is."""
        name: str = body["model"]
        first = await self._find(name, headers)
        if first is None:
            raise self._unknown(name, headers)
        meant = asked_as(first.settings, name)
        ways = [(first, meant)]
        if body.get("conversation") is None:  # which is one backend's own state
            for fallback in first.settings.fallbacks:
                member = self._named[fallback]
                model = member.instead(name, meant, headers)
                if model is not None:
                    ways.append((member, model))
        return ways

    async def _ask(
        self,
        member: RoutedBackend,
        body: Mapping[str, Any],
        items: Sequence[bytes],
        headers: Mapping[str, str],
    ) -> PeekableStream:
        """Send one request, and once more without what only another upstream could read."""
        try:
            return await member.open(body, items, headers)
        except UpstreamFault as fault:
            if len(self._members) == 1 or not sealed.is_refusal(fault):
                raise
            readable = sealed.without(items)
            if len(readable) == len(items):
                raise
        return await member.open(body, readable, headers)

    async def _find(self, name: str, headers: Mapping[str, str]) -> RoutedBackend | None:
        """Whose model it is; lists are asked for where only they can tell."""
        if self._claims.find(name) is None and len(self._open) > 1:
            listings = [member.listing(headers) for member in self._open]
            for listing in listings:
                listing.ask()
            for wait in (False, True):
                found = [await listing.look(wait=wait) for listing in listings]
                if any(name in models for models in found if models is not None):
                    break
        return self._taker(name, headers)

    def _taker(self, name: str, headers: Mapping[str, str]) -> RoutedBackend | None:
        """Whose model it is, by what is known now."""
        at = self._claims.find(name)
        if at is not None:
            return self._members[at]
        if len(self._open) == 1:
            return self._open[0]
        found = [(member, member.listing(headers).found) for member in self._open]
        sure = (member for member, models in found if models is not None and name in models)
        maybe = (member for member, models in found if models is None)
        return next(sure, None) or next(maybe, None)

    def _unknown(self, name: str, headers: Mapping[str, str]) -> ClientFault:
        known: dict[str, None] = {}
        for member in self._members:
            known |= dict.fromkeys(member.settings.models)
            known |= {one: None for one, _ in member.names(headers)}
        names = list(known)
        more = f", and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
        listed = ", ".join(one[:80] for one in names[:_MAX_NAMED]) or "none"
        return ClientFault(
            f"The model '{name[:80]}' is not known here. Known: {listed}{more}.",
            code="model_not_found",
            status=404,
            param="model",
        )

    def _stepped_in(
        self, member: RoutedBackend, first: RoutedBackend, fault: UpstreamFault
    ) -> None:
        said = isinstance(fault, BackendAnswered | Reported)
        why = f"answers {fault.status}" if said else "is not reached, or breaks off"
        line = f"{member.name} answers in place of {first.name}, which {why}"
        self._notices.warning(f"{member.name} for {first.name}", line)

    def _spawn(self, task: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._tasks is None or self._tasks.cancel_scope.cancel_called:
            raise unreachable("The gateway is shutting down.", status=503)
        self._tasks.start_soon(_by_itself, task)


async def _by_itself(task: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run what nobody waits for; whatever breaks there must not end the tasks beside it."""
    try:
        await task()
    except Exception:
        log.exception("asking an upstream broke by our own fault")


def _passes(fault: UpstreamFault) -> bool:
    """Whether another upstream may do better; any other 4xx is about the request."""
    return fault.status in (408, 429) or fault.status >= 500


def _most_telling(faults: Sequence[UpstreamFault]) -> UpstreamFault:
    """An upstream's own words, the first one's above all; else why the last was not reached."""
    said = (fault for fault in faults if isinstance(fault, BackendAnswered | Reported))
    return next(said, faults[-1])


async def _look_into(stream: PeekableStream, *, last: bool) -> None:
    """Raise what a good head hides: a stream that is an error from the start, or nothing at all.

    The last one to be asked may as well tell it itself.
    """
    if last:
        return
    events = await stream.first()
    empty = unreachable("The backend ended its answer before it said anything.")
    fault = _error_in(events[0]) if events else empty
    if fault is not None and _passes(fault):
        stream.close()
        raise fault


def _error_in(event: Event) -> UpstreamFault | None:
    """The fault that a first event tells of, if it is the backend's trouble."""
    name, data = event
    try:
        value = decode_lenient(data)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    kind = value.get("type") or name
    if kind == "response.failed":
        response = value.get("response")
        value = {"error": response.get("error") if isinstance(response, dict) else None}
    elif kind != "error" and not value.get("error"):
        return None
    fault = reported(value)
    return None if fault.code in ERROR_CODES - _TROUBLES else fault
