"""SHELL: `POST /v1/responses`, one create as one HTTP request (protocol.md 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
from starlette.responses import Response

from gateway.client.frames import create_of
from gateway.config.configured_upstreams import default_model
from gateway.http.bodies import read_object
from gateway.http.collector import Collector
from gateway.http.errors import refusal
from gateway.http.sse import SseOutbox
from lanes.errors import ClientFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from gateway.client.auth import Headers
    from gateway.http.engine import Engine
    from gateway.http.running import RunningResponses
    from lanes.frames import Create
    from lanes.worker import Worker

_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class ResponseCreation:
    """Turns each request into a create, and the worker's events into the answer.

    Args:
        engine: Makes the workers.
        running: The responses of this process that run for HTTP.
        relayed: Picks the headers that upstreams may see.
    """

    def __init__(
        self,
        engine: Engine,
        running: RunningResponses,
        relayed: Callable[[Headers], dict[str, str]],
    ) -> None:
        self._engine = engine
        self._running = running
        self._relayed = relayed
        self._default_model = default_model(engine.settings)

    async def create(self, key_id: str, request: Request) -> ASGIApp:
        """Return what carries the create and answers with it, or raise a ClientFault."""
        self._running.check()
        fields, body = await read_object(request, self._engine.settings.max_frame_bytes)
        streams = _streams(fields)
        create = create_of(fields, len(body), self._default_model)
        headers = self._relayed(request.scope["headers"])
        if streams:
            events = SseOutbox(self._engine.settings.heartbeat_interval)
            worker = self._engine.worker(key_id, headers, events)
            return StreamedResponse(self._running, worker, create, events)
        collector = Collector()
        worker = self._engine.worker(key_id, headers, collector)
        return WholeResponse(self._running, worker, create, collector)


def _streams(fields: dict[str, Any]) -> bool:
    streams = fields.get("stream")
    if not isinstance(streams, bool | None):
        message = "'stream' must be a boolean or null."
        raise ClientFault(message, code="invalid_type", param="stream")
    if "stream_id" in fields:
        message = "'stream_id' names a lane of a WebSocket; a request over HTTP has none."
        raise ClientFault(message, code="invalid_value", param="stream_id")
    return bool(streams)


class WholeResponse:
    """Answers with the response object, once the response is over.

    Args:
        running: The responses of this process that run for HTTP.
        worker: Carries the create.
        create: The create.
        collector: The worker's outbox.
    """

    def __init__(
        self, running: RunningResponses, worker: Worker, create: Create, collector: Collector
    ) -> None:
        self._running = running
        self._worker = worker
        self._create = create
        self._collector = collector

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Carry the create; nothing of it goes on once the client has left."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_once_gone, receive, tasks.cancel_scope)
            with self._running.running(self._worker):
                await self._worker.carry(self._create)
            await self._answer()(scope, receive, send)
            tasks.cancel_scope.cancel()

    def _answer(self) -> Response:
        if self._collector.fault is not None:
            return refusal(self._collector.fault)
        return Response(self._collector.response(), media_type="application/json")


class StreamedResponse:
    """Answers with the events of the response as they come.

    Args:
        running: The responses of this process that run for HTTP.
        worker: Carries the create.
        create: The create.
        events: The worker's outbox.
    """

    def __init__(
        self, running: RunningResponses, worker: Worker, create: Create, events: SseOutbox
    ) -> None:
        self._running = running
        self._worker = worker
        self._create = create
        self._events = events
        self._body = _Body()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Carry the create while its events are sent; stop once the client has left."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_once_gone, receive, tasks.cancel_scope)
            tasks.start_soon(self._carry)
            await self._events.decided.wait()
            if self._events.fault is not None:
                await refusal(self._events.fault)(scope, receive, send)
            else:
                start = {"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS}
                await send(start)
                self._events.open(self._body.write)
                try:
                    await self._body.send(send)
                finally:
                    self._events.close()
            tasks.cancel_scope.cancel()

    async def _carry(self) -> None:
        with self._running.running(self._worker):
            await self._worker.carry(self._create)
        self._events.flush()
        self._body.end()


class _Body:
    """What was written and not yet sent."""

    def __init__(self) -> None:
        self._written: list[bytes] = []
        self._more = True
        self._news = anyio.Event()

    def write(self, data: bytes) -> None:
        self._written.append(data)
        self._news.set()

    def end(self) -> None:
        self._more = False
        self._news.set()

    async def send(self, send: Send) -> None:
        """Send what is written until the end."""
        while self._more or self._written:
            await self._news.wait()
            self._news = anyio.Event()
            body = b"".join(self._written)
            self._written.clear()
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _cancel_once_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    """Cancel the scope when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
