"""SHELL: the two forms of an answer to a create: its events, or its response object."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import anyio
from starlette.responses import Response

from gateway.client.contained import contained
from gateway.client.paced_writer import WaterMarks
from gateway.http.errors import refusal
from gateway.http.sse import SseWriter
from gateway.telemetry.traffic import Traffic

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


class Wire(Protocol):
    """A client's connection, as an answer writes to it."""

    def bound(self, marks: WaterMarks) -> None:
        """Bound the unsent bytes (D10)."""

    def write(self, data: bytes) -> None:
        """Write a part of the body as it is."""

    def cut(self) -> None:
        """Close in the middle of an answer, so that it does not look whole."""


@dataclass(frozen=True, slots=True)
class Wires:
    """How answers find the connections of their clients, and what holds for all of these.

    Attributes:
        of: Returns the connection of a request.
        heartbeat: Seconds of silence until a comment in a stream.
        high: Unsent bytes at which a stream pauses.
        stall_timeout: Seconds in which a client has to read something.
        sent: Where what is sent is counted.
    """

    of: Callable[[Scope], Wire]
    heartbeat: float
    high: int
    stall_timeout: float
    sent: Traffic = field(default_factory=Traffic)

    def bound(self, wire: Wire, on_full: Callable[[], None], on_room: Callable[[], None]) -> None:
        """Bound what a stream leaves unsent.

        Args:
            wire: The client's connection.
            on_full: Called when it gets full.
            on_room: Called when there is room again.
        """
        wire.bound(WaterMarks(self.high, self.stall_timeout, on_full, on_room))

    def finish(self, wire: Wire) -> None:
        """Let the client read what is left, as long as it reads."""
        # One byte is too many. With none, a transport by TLS is full while it holds nothing.
        wire.bound(WaterMarks(1, self.stall_timeout, _nothing, _nothing))


def _nothing() -> None:
    """Do nothing: the answer is whole."""


class WholeAnswer:
    """Answers with the response object, once the response is over.

    `ended` returns it when it is, or the fault instead; it is cancelled once the client has left.
    """

    def __init__(self, wires: Wires, ended: Callable[[], Awaitable[bytes | Fault]]) -> None:
        self._wires = wires
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait for the response, and answer with it."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(contained, _cancel_once_gone, receive, tasks.cancel_scope)
            response = await self._ended()
            answer = (
                Response(response, media_type="application/json")
                if isinstance(response, bytes)
                else refusal(response)
            )
            self._wires.sent.bytes += len(answer.body)
            self._wires.finish(self._wires.of(scope))
            await answer(scope, receive, send)
            tasks.cancel_scope.cancel()


class StreamedAnswer:
    """Answers with events as they come.

    Args:
        source: Where they come from.
        wires: Finds the client's connection.
        carry: What makes them come, if that is to end when the client leaves.
    """

    def __init__(
        self,
        source: EventSource,
        wires: Wires,
        carry: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self._source = source
        self._wires = wires
        self._carry = carry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until the end, or until the client has left."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(contained, _cancel_once_gone, receive, tasks.cancel_scope)
            if self._carry is not None:
                tasks.start_soon(contained, self._carry)
            await self._source.decided.wait()
            if self._source.fault is not None:
                await refusal(self._source.fault)(scope, receive, send)
            else:
                await self._stream(scope, send)
            tasks.cancel_scope.cancel()

    async def _stream(self, scope: Scope, send: Send) -> None:
        wire = self._wires.of(scope)
        await send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
        source, sent = self._source, self._wires.sent
        writer = SseWriter(wire.write, self._wires.heartbeat, sent)

        def on_full() -> None:
            writer.full = True
            sent.pressure.begin()
            source.pause()

        def on_room() -> None:
            writer.full = False
            sent.pressure.end()
            source.resume()

        self._wires.bound(wire, on_full, on_room)
        try:
            source.open(writer)
            await source.over.wait()
            source.flush()
        finally:
            writer.close()
            source.leave()
            if writer.full:
                sent.pressure.end()
        self._wires.finish(wire)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _cancel_once_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    """Cancel the scope when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
