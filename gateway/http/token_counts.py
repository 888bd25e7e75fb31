"""SHELL: `POST /v1/responses/input_tokens`, what an input would cost (protocol.md 7)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import anyio

from gateway.client.frames import create_of
from gateway.config.configured_upstreams import default_model
from gateway.http.answers import WholeAnswer
from gateway.http.bodies import read_object
from gateway.http.keyed import check_model
from gateway.http.whole_input import whole_input
from gateway.upstream.token_counts import CountedRequest
from lanes.codec import encode
from lanes.compaction.compactor import Compactor
from lanes.errors import Fault
from lanes.history.archive import KeyArchive

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from gateway.client.auth import Headers
    from gateway.config.settings import Settings
    from gateway.http.answers import Wires
    from gateway.http.running import RunningResponses
    from gateway.upstream.routing.router import Router
    from lanes.errors import UpstreamFault
    from lanes.history.archive import Archive


class TokenCounts:
    """Asks the backend of a model how many tokens a create would have as its input.

    Args:
        upstreams: All upstreams.
        archive: The stored responses.
        running: What runs for HTTP.
        wires: Find the clients' connections.
        relayed: Picks the headers that upstreams may see.
        settings: The gateway's.
    """

    def __init__(
        self,
        upstreams: Router,
        archive: Archive,
        running: RunningResponses,
        wires: Wires,
        relayed: Callable[[Headers], dict[str, str]],
        settings: Settings,
    ) -> None:
        self._upstreams = upstreams
        self._archive = archive
        self._running = running
        self._wires = wires
        self._relayed = relayed
        self._settings = settings
        self._default_model = default_model(settings)

    async def answer(self, key_id: str, request: Request) -> ASGIApp:
        """Return what answers with the count, or raise why nothing is counted."""
        self._running.check()
        settings = self._settings
        fields, body = await read_object(request, settings.max_frame_bytes, settings.max_chain)
        if fields.get("input") is None:
            fields.pop("input", None)
        create = create_of(fields, len(body), self._default_model)
        check_model(request, create.body.get("model"))
        archive = KeyArchive(self._archive, key_id)
        parent, before, own = await whole_input(archive, create)
        headers = self._relayed(request.scope["headers"])
        member, model = await self._upstreams.destination(create.body["model"], headers)
        fields = {**create.body, "model": model}
        if parent is not None:
            fields.pop("conversation", None)  # its items are there already
        compactor = Compactor(self._upstreams, archive, headers)
        items = await compactor.context([*before, *own], len(own), create.body)
        asked = CountedRequest(fields, items, headers)
        counting = _Counting(partial(member.count, asked), self._running)
        return WholeAnswer(self._wires, counting.ended)


class _Counting:
    """One count on its way: it ends with its client, and as the gateway does."""

    def __init__(self, count: Callable[[], Awaitable[int]], running: RunningResponses) -> None:
        self._count = count
        self._running = running
        self._waiting = anyio.CancelScope()
        self._stopped: UpstreamFault | None = None

    def stop(self, fault: UpstreamFault) -> None:
        """End now, with this fault."""
        self._stopped = fault
        self._waiting.cancel()

    async def ended(self) -> bytes | Fault:
        """Return the answer, or why there is none."""
        try:
            with self._running.running(self), self._waiting:
                count = await self._count()
                return encode({"object": "response.input_tokens", "input_tokens": count})
        except Fault as fault:
            return fault.bare()
        assert self._stopped is not None, "only `stop` cancels it"
        return self._stopped
