"""SHELL: `POST /v1/responses`, one create as one HTTP request (protocol.md 7)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from gateway.client.frames import create_of
from gateway.config.configured_upstreams import default_model
from gateway.http.answers import StreamedAnswer, WholeAnswer
from gateway.http.bodies import read_object
from gateway.http.claiming import IdempotentRequest
from gateway.http.collector import Collector
from gateway.http.idempotency import IdempotentCreates
from gateway.http.keyed import check_model, holding
from gateway.http.sse import SseOutbox
from lanes.errors import ClientFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from gateway.client.auth import Headers
    from gateway.http.answers import Wires
    from gateway.http.engine import Engine
    from gateway.http.running import RunningResponses
    from gateway.http.stored import StoredResponses
    from lanes.errors import Fault
    from lanes.frames import Create
    from lanes.ports import Outbox
    from lanes.worker import Worker


class ResponseCreation:
    """Turns each request into a create, and the worker's events into the answer.

    Args:
        engine: Makes the workers.
        running: The responses of this process that run for HTTP.
        wires: Find the clients' connections.
        relayed: Picks the headers that upstreams may see.
        stored: Answers for those that run in the background.
    """

    def __init__(
        self,
        engine: Engine,
        running: RunningResponses,
        wires: Wires,
        relayed: Callable[[Headers], dict[str, str]],
        stored: StoredResponses,
    ) -> None:
        self._engine = engine
        self._running = running
        self._relayed = relayed
        self._default_model = default_model(engine.settings)
        self._wires = wires
        self._stored = stored
        self._idempotent = IdempotentCreates(engine.stores.claims, running, wires)

    async def create(self, key_id: str, request: Request) -> ASGIApp:
        """Return what answers a create, or raise why it is refused."""
        self._running.check()
        settings = self._engine.settings
        fields, body = await read_object(request, settings.max_frame_bytes, settings.max_chain)
        streams = _streams(fields)
        create = create_of(fields, len(body), self._default_model, background=True)
        check_model(request, create.body.get("model"))
        headers = self._relayed(request.scope["headers"])
        make = partial(self._engine.worker, key_id, headers)
        same = await IdempotentRequest.of(key_id, request, body)
        if create.body.get("background"):
            begin = partial(self._stored.background.start, key_id, create, make)
            lost = partial(self._stored.lost, key_id)
            first = await (begin() if same is None else self._idempotent.once(same, begin, lost))
            return await self._stored.created(key_id, first, streams=streams)
        if same is not None:
            return await self._idempotent.answer(same, create, make, streams=streams)
        answer = self._streamed if streams else self._whole
        return answer(create, make, request)

    def _streamed(
        self, create: Create, make: Callable[[Outbox], Worker], request: Request
    ) -> StreamedAnswer:
        events = SseOutbox()
        worker = make(events)

        async def carry() -> None:
            with self._running.running(worker), holding(request, worker.stop):
                await worker.carry(create)
            events.over.set()

        return StreamedAnswer(events, self._wires, carry)

    def _whole(
        self, create: Create, make: Callable[[Outbox], Worker], request: Request
    ) -> WholeAnswer:
        collector = Collector()
        worker = make(collector)

        async def ended() -> bytes | Fault:
            with self._running.running(worker), holding(request, worker.stop):
                await worker.carry(create)
            return collector.fault or collector.response()

        return WholeAnswer(self._wires, ended)


def _streams(fields: dict[str, Any]) -> bool:
    streams = fields.get("stream")
    if not isinstance(streams, bool | None):
        message = "'stream' must be a boolean or null."
        raise ClientFault(message, code="invalid_type", param="stream")
    if "stream_id" in fields:
        message = "'stream_id' names a lane of a WebSocket; a request over HTTP has none."
        raise ClientFault(message, code="invalid_value", param="stream_id")
    return bool(streams)
