"""HTTP and SSE around the script: the endpoint that generates, and the routes beside it."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
import uuid
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from gateway import logs
from gateway.process.listening import OrderlyServer, listen
from gateway.tools.rehearse.events import ResponseEvents
from gateway.tools.rehearse.refusals import RequestRefused
from gateway.tools.rehearse.request import read
from gateway.tools.rehearse.script import Ending, decide

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from starlette.types import Receive, Scope, Send

NAME = "multilane-rehearse"
MODEL = "rehearse"
_STALL_SECONDS = 600
#: How long a shutdown waits for answers on their way, in seconds.
_DRAIN_SECONDS = 1.0

_log = logging.getLogger("multilane.rehearse")


def _json(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON answer with a request id, as the hosted API sends one."""
    body = msgspec.json.encode(content)
    named = {"x-request-id": f"req_{uuid.uuid4().hex}", **(headers or {})}
    return Response(body, status, named, "application/json")


class RehearsalApp:
    """The ASGI application that generates answers, and its counters."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._running: set[anyio.CancelScope] = set()
        self.requests = self.cancelled = 0

    @property
    def open(self) -> int:
        """Answers on their way."""
        return len(self._running)

    def stop(self) -> None:
        """Cut every answer that is on its way."""
        for scope in self._running:
            scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one POST."""
        self.requests += 1
        try:
            request = read(await Request(scope, receive).body())
            plan = decide(request)
        except RequestRefused as refused:
            await _json(refused.body, refused.status, refused.headers)(scope, receive, send)
            return
        except ClientDisconnect:
            self.cancelled += 1
            return
        events = ResponseEvents(request, plan, uuid.uuid4().hex, time.time)
        send_events = self._stream if request.get("stream") else self._whole
        left = True
        tasks = anyio.create_task_group()
        self._running.add(tasks.cancel_scope)
        try:
            async with tasks:
                tasks.start_soon(_watch, receive, tasks.cancel_scope)
                await send_events(events, plan.ending, send)
                left = False
                tasks.cancel_scope.cancel()
        finally:
            self._running.discard(tasks.cancel_scope)
            self.cancelled += left

    async def _stream(self, events: ResponseEvents, ending: Ending, send: Send) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"x-request-id", f"req_{uuid.uuid4().hex}".encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if ending is Ending.STALL:
            await _stall(send)
            return
        pace = _Pace(self._rate)
        for words, event in events.timed():
            await pace.wait(words)
            data = b"event: %b\ndata: %b\n\n" % (event["type"].encode(), msgspec.json.encode(event))
            await send({"type": "http.response.body", "body": data, "more_body": True})
        # An unfinished body makes the server close the connection: that is the cut.
        if events.response["status"] != "in_progress":
            await send({"type": "http.response.body", "body": b""})

    async def _whole(self, events: ResponseEvents, ending: Ending, send: Send) -> None:
        if ending is Ending.STALL:
            await anyio.sleep(_STALL_SECONDS)
            return
        pace = _Pace(self._rate)
        for words, _ in events.timed():
            await pace.wait(words)
        cut = events.response["status"] == "in_progress"
        answer = _json(events.response)
        body = answer.body[: len(answer.body) // 2] if cut else answer.body
        headers = answer.raw_headers
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": cut})


class _Pace:
    """Keeps to words a second, measured from the start so that no delay adds up."""

    def __init__(self, rate: float) -> None:
        self._per_word = 1 / rate if rate > 0 else 0.0
        self._due = anyio.current_time()

    async def wait(self, words: int) -> None:
        self._due += words * self._per_word
        # The loop gets its turn without a wait too, or nobody notices that the client left.
        await anyio.sleep(max(0.0, self._due - anyio.current_time()) if words else 0)


async def _watch(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _stall(send: Send) -> None:
    for _ in range(_STALL_SECONDS):
        await send({"type": "http.response.body", "body": b": keepalive\n\n", "more_body": True})
        await anyio.sleep(1)


def build(app: RehearsalApp) -> Starlette:
    """Return the whole application around `app`."""

    async def models(_: Request) -> Response:
        model = {"id": MODEL, "object": "model", "created": 0, "owned_by": NAME}
        return _json({"object": "list", "data": [model]})

    async def health(_: Request) -> Response:
        return _json({"status": "ok"})

    async def stats(_: Request) -> Response:
        names = ("requests", "open", "cancelled")
        return _json({name: getattr(app, name) for name in names})

    async def unknown(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        message = f"Invalid URL ({request.method} {request.url.path})"
        return _json(RequestRefused(message, status=status).body, status)

    routes = [
        Route("/{prefix:path}v1/responses", app, methods=["POST"]),
        Route("/{prefix:path}v1/models", models),
        Route("/health", health),
        Route("/stats", stats),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: unknown})


class _Server(OrderlyServer):
    def __init__(self, config: uvicorn.Config, app: RehearsalApp, address: str) -> None:
        super().__init__(config)
        self._app = app
        self._address = address

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        _log.info(
            "%s on %s: a scripted backend for trying and testing, no model", NAME, self._address
        )
        sys.stdout.write(f"ready http://{self._address}/v1\n")
        sys.stdout.flush()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        with anyio.move_on_after(_DRAIN_SECONDS):
            while self._app.open and not self.force_exit:  # noqa: ASYNC110  (a signal's flag)
                await anyio.sleep(0.05)
        self._app.stop()
        await super().shutdown(sockets)


def serve(host: str, port: int, rate: float) -> None:
    """Serve until a signal. Print `ready http://HOST:PORT/v1` to stdout once it listens.

    Args:
        host: The address to listen on.
        port: The port, 0 for any free one.
        rate: Words a second, 0 for as fast as possible.

    Raises:
        BindFailed: The address is taken, or is not this machine's.
    """
    logs.configure("info", "text")
    # A scripted cut is not an error of the server.
    logging.getLogger("uvicorn.error").addFilter(
        lambda record: "without completing response" not in record.getMessage()
    )
    app = RehearsalApp(rate)
    config = uvicorn.Config(
        build(app),
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        headers=[("server", NAME)],
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
    )
    listener = listen(host, port)
    with contextlib.closing(listener), contextlib.suppress(KeyboardInterrupt):
        _Server(config, app, listener.place).run(listener.sockets)
