"""All upstreams as one: which takes a request, which step in for it, which models there are."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio

from gateway.logs import ThrottledWarnings
from gateway.upstream.history.refused_items import refused_part, without
from gateway.upstream.routing.model_names import ModelClaims, asked_as
from gateway.upstream.routing.readiness import Readiness, run_detached
from gateway.upstream.routing.routed_backend import RoutedBackend
from gateway.upstream.stream_start import passes
from gateway.upstream.transport.faults import backend_fault
from lanes.cpu_thread import run_in_cpu_thread
from lanes.errors import ClientFault, UpstreamFault

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from anyio.abc import TaskGroup, TaskStatus

    from gateway.upstream.options import UpstreamOptions
    from gateway.upstream.tracked_stream import BegunStream
    from lanes.ports import OwnCompaction, Stream

    #: Hears what went wrong with an upstream of this name.
    Failed = Callable[[str, UpstreamFault], None]

log = logging.getLogger("multilane.upstream")

#: How many models an error names to a client that asked for another.
_MAX_NAMED: Final = 20


@dataclass(slots=True)
class _Asked:
    """A request on its way to one upstream after another.

    `spared` calls what learns that leaving out a part of its history helped, if one was left out.
    """

    body: Mapping[str, Any]
    items: Sequence[bytes]
    headers: Mapping[str, str]
    spared: Callable[[], None] | None = None


class Router:
    """Implements `lanes.ports.Upstream` for any number of backends. Keep `run` running.

    `failed` hears of each request that an upstream did not answer, those included for which a
    fallback stepped in.
    """

    def __init__(self, upstreams: Sequence[UpstreamOptions], failed: Failed | None = None) -> None:
        self._failed: Failed = failed or (lambda _name, _fault: None)
        # Several upstreams at one address are one maker of items: each can read the others'.
        makers: dict[str, str] = {}
        self.members = [
            RoutedBackend(one, self._spawn, makers.setdefault(one.place, one.name))
            for one in upstreams
        ]
        self._named = {member.name: member for member in self.members}
        self._claims = ModelClaims(upstreams)
        self._open = [member for member in self.members if member.takes_what_it_lists]
        #: Takes every model, so nothing has to be looked up.
        self._lone = self._open[0] if len(self.members) == len(self._open) == 1 else None
        #: Whether it is known how they speak.
        self.readiness = Readiness(self.members, partial(self._taker, headers={}), self._spawn)
        self._notices = ThrottledWarnings(log)
        self._tasks: TaskGroup | None = None

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Fetch lists of models when they are due, until cancelled.

        Args:
            task_status: Hears when the router can be used.
        """
        try:
            async with anyio.create_task_group() as self._tasks:
                task_status.started()
                await anyio.sleep_forever()
        finally:
            self._tasks = None

    async def open(
        self, body: Mapping[str, Any], items: Sequence[bytes], headers: Mapping[str, str]
    ) -> Stream:
        """Send one request to the upstream of its model, or to one that steps in for it (D23).

        Args:
            body: The client's request; its `model` decides.
            items: The whole effective input, each item as JSON.
            headers: The client's, as far as upstreams may see them.

        Raises:
            ClientFault: No upstream takes that model.
            UpstreamFault: None of those asked answered.
        """
        ways = await self._ways(body, headers)
        asked = _Asked(body, items, headers)
        faults: list[UpstreamFault] = []
        for at, (member, model) in enumerate(ways, 1):
            try:
                stream = await self._ask(member, model, asked, last=at == len(ways))
            except UpstreamFault as fault:
                faults.append(fault.bare())
                self._failed(member.name, fault)
                if not passes(fault):
                    break
            except ClientFault:
                if not faults:
                    raise
                # The client is not to blame if a fallback has no words for the request.
            else:
                if faults:
                    self._log_fallback(member, ways[0][0], faults[0])
                return stream
        # The first that an upstream put into words itself, else the last one.
        raise next((fault for fault in faults if fault.answered), faults[-1])

    async def check(self, model: str, headers: Mapping[str, str]) -> None:
        """Raise ClientFault if no upstream takes the model (see `Upstream.check`)."""
        await self.destination(model, headers)

    async def compaction(self, model: str, headers: Mapping[str, str]) -> OwnCompaction:
        """Return what the backend of a model does itself (see `Upstream.compaction`)."""
        member, meant = await self.destination(model, headers)
        return await member.compaction(headers, meant)

    @property
    def models_matter(self) -> bool:
        """Whether the model of a request decides where it goes, or how it is named there."""
        return self._lone is None or bool(self._lone.options.aliases)

    async def destination(
        self, model: str | None, headers: Mapping[str, str]
    ) -> tuple[RoutedBackend, str | None]:
        """Return who gets what is passed on as it is, and what the model is called there.

        Without a model it is the first upstream. Raises ClientFault if none takes the model.
        """
        if model is None:
            return self.members[0], None
        member = self._lone or await self._find(model, headers)
        if member is None:
            raise self._unknown(model, headers)
        return member, asked_as(member.options, model)

    async def models(self, headers: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return the models that can be asked for, in OpenAI's form of a list (protocol.md 2).

        Each is owned by the upstream that takes it. An upstream that is away delays nothing. Raises
        UpstreamFault while shutting down.
        """
        listings = [member.listing(headers) for member in self.members if member.lists]
        for listing in listings:
            listing.refresh_if_due()
        for listing in listings:
            await listing.get()
        models: dict[str, dict[str, Any]] = {}
        for member in self.members:
            for name, created in member.names(headers):
                if name not in models and self._taker(name, headers) is member:
                    entry = {"id": name, "object": "model", "created": created}
                    models[name] = {**entry, "owned_by": member.name}
        return list(models.values())

    async def aclose(self) -> None:
        """Close all connections to all of them."""
        for member in self.members:
            await member.aclose()

    async def _ways(
        self, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> list[tuple[RoutedBackend, str]]:
        """Return the upstreams to ask, in order, and for which model. Raises ClientFault."""
        name: str = body["model"]
        first = self._lone or await self._find(name, headers)
        if first is None:
            raise self._unknown(name, headers)
        meant = first.options.aliases.get(name, name)
        ways = [(first, meant)]
        if body.get("conversation") is None:  # which is one backend's own state
            for fallback in first.options.fallbacks:
                member = self._named[fallback]
                model = member.instead(name, meant, headers)
                if model is not None:
                    ways.append((member, model))
        return ways

    async def _ask(
        self, member: RoutedBackend, model: str, asked: _Asked, *, last: bool
    ) -> BegunStream:
        """Send a request, and once more without a part of the history that is refused.

        Args:
            member: The upstream.
            model: What the model is called there.
            asked: The request.
            last: Whether no other upstream could step in.
        """
        stream = None
        items = asked.items
        if member.unreadable is not None:
            items = await member.readable(model, items)
        try:
            stream = await member.open({**asked.body, "model": model}, items, asked.headers)
            fault = stream.start.reason(last=last)
        except UpstreamFault as raised:
            fault = raised.bare()
        if stream is not None and fault is None:
            if asked.spared is not None and stream.start.fault is None:
                asked.spared()
            return stream
        assert fault is not None
        again = await self._spare(asked, fault, member, model)
        if stream is not None:
            if not again and (last or not passes(fault)):
                return stream
            stream.close()
        if not again:
            raise fault
        return await self._ask(member, model, asked, last=last)

    async def _spare(
        self, asked: _Asked, fault: UpstreamFault, member: RoutedBackend, model: str
    ) -> bool:
        """Leave out of a history what the fault is about, if that has not been done before.

        Args:
            asked: The request.
            fault: Why it was refused.
            member: The upstream that refused it.
            model: What the model is called there.
        """
        part = refused_part(fault) if asked.spared is None else None
        items = None if part is None else await run_in_cpu_thread(without, asked.items, part)
        if part is None or items is None:
            return False
        asked.spared = partial(member.learn_unreadable, model, asked.items, part)
        asked.items = items
        line = f"{member.options.prefix}The backend refuses {part}; asked again without them"
        self._notices.warning(f"{member.name} refused {part}", line)
        return True

    async def _find(self, name: str, headers: Mapping[str, str]) -> RoutedBackend | None:
        """Return the upstream that takes the model; lists are fetched where only they can say."""
        if self._claims.find(name) is None and len(self._open) > 1:
            listings = [member.listing(headers) for member in self._open]
            for listing in listings:
                listing.refresh_if_due()
            for wait in (False, True):
                lists = [await listing.get(wait=wait) for listing in listings]
                if any(name in models for models in lists if models is not None):
                    break
        return self._taker(name, headers)

    def _taker(self, name: str, headers: Mapping[str, str]) -> RoutedBackend | None:
        """Return the upstream that takes the model, by what is known now."""
        at = self._claims.find(name)
        if at is not None:
            return self.members[at]
        if len(self._open) == 1:
            return self._open[0]
        lists = [(member, member.listing(headers).models) for member in self._open]
        sure = (member for member, models in lists if models is not None and name in models)
        maybe = (member for member, models in lists if models is None)
        return next(sure, None) or next(maybe, None)

    def _unknown(self, name: str, headers: Mapping[str, str]) -> ClientFault:
        models: dict[str, None] = {}
        for member in self.members:
            models |= dict.fromkeys(member.options.models)
            models |= {one: None for one, _ in member.names(headers)}
        names = list(models)
        more = f", and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
        listed = ", ".join(one[:80] for one in names[:_MAX_NAMED]) or "none"
        message = f"The model '{name[:80]}' is not known here. Known: {listed}{more}."
        return ClientFault(message, code="model_not_found", status=404, param="model")

    def _log_fallback(
        self, member: RoutedBackend, first: RoutedBackend, fault: UpstreamFault
    ) -> None:
        why = f"answers {fault.status}" if fault.answered else "is not reached, or breaks off"
        line = f"{member.name} answers in place of {first.name}, which {why}"
        self._notices.warning(f"{member.name} for {first.name}", line)

    def _spawn(self, task: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._tasks is None or self._tasks.cancel_scope.cancel_called:
            raise backend_fault("The gateway is shutting down.", status=503)
        self._tasks.start_soon(run_detached, task)
