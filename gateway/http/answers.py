"""SHELL: the two forms of an answer to a create: its events, or its response object."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from starlette.responses import Response

from gateway.http.errors import refusal
from gateway.http.sse import SseWriter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any

    from starlette.types import Receive, Scope, Send

    from gateway.http.sse import EventSource
    from lanes.errors import Fault

_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class WholeAnswer:
    """Answers with the response object, once the response is over.

    `ended` returns it when it is, or the fault instead; it is cancelled once the client has left.
    """

    def __init__(self, ended: Callable[[], Awaitable[bytes | Fault]]) -> None:
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait for the response, and answer with it."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_once_gone, receive, tasks.cancel_scope)
            response = await self._ended()
            answer = (
                Response(response, media_type="application/json")
                if isinstance(response, bytes)
                else refusal(response)
            )
            await answer(scope, receive, send)
            tasks.cancel_scope.cancel()


class StreamedAnswer:
    """Answers with events as they come.

    Args:
        source: Where they come from.
        heartbeat: Seconds of silence until a comment.
        carry: What makes them come, if that is to end when the client leaves.
    """

    def __init__(
        self,
        source: EventSource,
        heartbeat: float,
        carry: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self._source = source
        self._heartbeat = heartbeat
        self._carry = carry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until the end, or until the client has left."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_once_gone, receive, tasks.cancel_scope)
            if self._carry is not None:
                tasks.start_soon(self._carry)
            await self._source.decided.wait()
            if self._source.fault is not None:
                await refusal(self._source.fault)(scope, receive, send)
            else:
                await self._stream(send)
            tasks.cancel_scope.cancel()

    async def _stream(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
        body = _Body()
        writer = SseWriter(body.write, self._heartbeat)
        try:
            self._source.open(writer)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(body.send, send)
                await self._source.over.wait()
                self._source.flush()
                body.end()
        finally:
            writer.close()
            self._source.leave()


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
