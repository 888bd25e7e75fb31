"""One HTTP answer: its head, its body as it arrives, its deadlines, and how it ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gateway.upstream.transport.faults import FaultHolder, backend_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.upstream.transport.http.connection import HttpConnection

#: How long the end of a body nobody wants any more may take before its connection is closed.
_DRAIN_SECONDS = 1.0


class HttpReply(FaultHolder):
    """The answer on a connection, which belongs to it until the body ends or it closes it.

    Time in which it does not read does not count as silence.

    Args:
        connection: The connection that carries the request.
        first_byte_timeout: Seconds that a read may take up to the first byte of the body.
        idle_timeout: Seconds that a read may take after it.
    """

    def __init__(
        self, connection: HttpConnection, *, first_byte_timeout: float, idle_timeout: float
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection: HttpConnection | None = connection
        self._idle_timeout = idle_timeout
        self._timeout = first_byte_timeout
        self._head: asyncio.Future[None] = self._loop.create_future()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._request_over = False  # whether the backend is done with the request
        self._on_request_over: Callable[[], None] = _do_nothing
        self._kept = bytearray()
        self._held = False  # bytes of the body wait for `start`
        self._paused = False
        self._target: Callable[[bytes], None] = self._keep
        self.consume: Callable[[bytes], None] = self._first
        self.status = 0
        self.headers: dict[str, str] = {}
        self.read_at = self._loop.time()
        self._timer = self._loop.call_at(self.read_at + first_byte_timeout, self._watch)

    async def head(self) -> None:
        """Wait for `status` and `headers`. Raises UpstreamFault."""
        await self._head
        if self._fault is not None:
            self._raise_fault()

    def start(self, consume: Callable[[bytes], None]) -> None:
        """Pass on the body that has arrived, and from now on each read from within that read."""
        kept = bytes(self._kept)
        self._kept.clear()
        self._held = False
        if self._connection is not None:
            self._target = consume
            if self.consume != self._first:
                self.consume = consume
        if kept:
            consume(kept)
        self._update_reading()

    async def end(self) -> None:
        """Wait for the end of the body, `release` or `close`.

        Raises UpstreamFault if the body breaks off, or the error given to `fail`.
        """
        await self._over
        if self._fault is not None:
            self._raise_fault()

    async def until(self, arrival: asyncio.Future[None]) -> None:
        """Wait for `arrival`, or for the body's end. Raises as `end` does, unless it arrived."""
        await asyncio.wait((arrival, self._over), return_when=asyncio.FIRST_COMPLETED)
        if not arrival.done() and self._fault is not None:
            self._raise_fault()

    def pause(self) -> None:
        """Stop reading until `resume`. Idempotent."""
        self._paused = True
        self._update_reading()

    def resume(self) -> None:
        """Read again. Idempotent."""
        if self._paused:
            self._paused = False
            self._update_reading()

    def release(self) -> None:
        """End at once; keep the connection if the body ends within a second."""
        connection = self._connection
        if connection is None:
            return
        self._finish()
        connection.read(on=True)
        connection.expire(_DRAIN_SECONDS)

    def close(self) -> None:
        """End at once and close the connection; pass on nothing more."""
        connection = self._connection
        self._finish()
        self._kept.clear()
        if connection is not None:
            connection.abort()
            self._end_request()

    def afterwards(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the backend is done with the request, at once if it is."""
        if self._request_over:
            callback()
        else:
            self._on_request_over = callback

    def fail(self, error: Exception) -> None:
        """Close, and make `end` raise `error`."""
        self._fault = self._fault or error
        self.close()

    # -- AnswerSink: what the connection calls --

    def on_head(self, status: int, headers: dict[str, str]) -> None:
        """Take the head (see `AnswerSink.on_head`)."""
        self.status, self.headers = status, headers
        if not self._head.done():
            self._head.set_result(None)

    def on_end(self) -> None:
        """End the answer well (see `AnswerSink.on_end`)."""
        self._finish()
        self._end_request()

    def on_lost(self, fault: Exception) -> None:
        """End the answer with a fault (see `AnswerSink.on_lost`)."""
        if not self._over.done():
            self._fault = fault
        self._finish()
        self._end_request()

    # -- private --

    def _finish(self) -> None:
        self._connection = None
        self._timer.cancel()
        self._target = self.consume = _discard  # and no reference cycle remains
        for waiter in (self._head, self._over):
            if not waiter.done():
                waiter.set_result(None)

    def _end_request(self) -> None:
        self._request_over = True
        callback, self._on_request_over = self._on_request_over, _do_nothing
        callback()

    def _first(self, data: bytes) -> None:
        """Take the first bytes of the body: from here on the idle timeout holds."""
        self._timeout = self._idle_timeout
        self._timer.cancel()
        self._timer = self._loop.call_at(self.read_at + self._timeout, self._watch)
        self.consume = self._target
        self.consume(data)

    def _keep(self, data: bytes) -> None:
        self._kept += data
        self._held = True
        self._update_reading()

    def _update_reading(self) -> None:
        if self._connection is not None:
            reading = not (self._paused or self._held)
            self._connection.read(on=reading)
            if reading:
                self.read_at = self._loop.time()

    def _watch(self) -> None:
        """Fail if the backend was silent for too long, else set the timer of all reads again."""
        now = self._loop.time()
        reading = not (self._paused or self._held)
        due = (self.read_at if reading else now) + self._timeout
        if due > now:
            self._timer = self._loop.call_at(due, self._watch)
        else:
            self.fail(
                backend_fault(
                    f"The backend sent nothing for {self._timeout:g} seconds.", status=504
                )
            )


def _do_nothing() -> None:
    """Stand in where nobody waits for the end of the request."""


def _discard(_: bytes) -> None:
    """Take a body that nobody wants."""
