"""One answer: its head, its body while it comes, its deadlines, and every way to be rid of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gateway.upstream.transport.faults import unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.upstream.transport.http.connection import HttpConnection

#: How long the end of a body nobody wants any more may take before its connection is closed.
_DRAIN_SECONDS = 1.0


class Reply:
    """The answer on `connection`, which is its own until the body ends, or is closed.

    Until the first byte of the body no read may take longer than `first_byte` seconds, after it
    none longer than `idle`. Time in which we do not read does not count.
    """

    def __init__(self, connection: HttpConnection, *, first_byte: float, idle: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection: HttpConnection | None = connection
        self._idle = idle
        self._limit = first_byte
        self._head: asyncio.Future[None] = self._loop.create_future()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._fault: Exception | None = None
        self._left = False  # nothing of the request is at the backend any more
        self._then: Callable[[], None] = _nothing
        self._kept = bytearray()
        self._held = False  # nobody takes the body yet
        self._paused = False
        self._target: Callable[[bytes], None] = self._keep
        self.consume: Callable[[bytes], None] = self._first
        self.status = 0
        self.headers: dict[str, str] = {}
        self.heard = self._loop.time()
        self._timer = self._loop.call_at(self.heard + first_byte, self._watch)

    async def head(self) -> None:
        """Wait until `status` and `headers` are there. Raises UpstreamFault."""
        await self._head
        if self._fault is not None:
            raise self._fault

    def start(self, consume: Callable[[bytes], None]) -> None:
        """Pass on what has come of the body, and from now on each read, in the read's own call."""
        kept = bytes(self._kept)
        self._kept.clear()
        self._held = False
        if self._connection is not None:
            self._target = consume
            if self.consume != self._first:
                self.consume = consume
        if kept:
            consume(kept)
        self._flow()

    async def end(self) -> None:
        """Wait for the body's end, `release` or `close`. Raises UpstreamFault, or `fail`'s."""
        await self._over
        if self._fault is not None:
            raise self._fault

    async def until(self, sign: asyncio.Future[None]) -> None:
        """Wait for a sign of the body's content, or as `end` does if there never is one."""
        await asyncio.wait((sign, self._over), return_when=asyncio.FIRST_COMPLETED)
        if self._fault is not None and not sign.done():
            raise self._fault

    def pause(self) -> None:
        """Stop reading until `resume`."""
        self._paused = True
        self._flow()

    def resume(self) -> None:
        """Read on."""
        if self._paused:
            self._paused = False
            self._flow()

    def release(self) -> None:
        """Be over at once; keep the connection if the body ends within a second."""
        connection = self._connection
        if connection is None:
            return
        self._finish()
        connection.read(on=True)
        connection.expire(_DRAIN_SECONDS)

    def close(self) -> None:
        """Be over at once and close the connection; nothing more is passed on."""
        connection = self._connection
        self._finish()
        self._kept.clear()
        if connection is not None:
            connection.abort()
            self._leave()

    def afterwards(self, then: Callable[[], None]) -> None:
        """Call `then` when nothing of the request is at the backend any more; at once if so."""
        if self._left:
            then()
        else:
            self._then = then

    def fail(self, error: Exception) -> None:
        """Close, and let `end` raise `error`."""
        self._fault = self._fault or error
        self.close()

    # -- what the connection calls --

    def on_head(self, status: int, headers: dict[str, str]) -> None:
        """Take the head."""
        self.status, self.headers = status, headers
        if not self._head.done():
            self._head.set_result(None)

    def on_end(self) -> None:
        """The body is complete and the connection no longer ours."""
        self._finish()
        self._leave()

    def on_lost(self, fault: Exception) -> None:
        """The body will not be complete."""
        if not self._over.done():
            self._fault = fault
        self._finish()
        self._leave()

    # -- inside --

    def _finish(self) -> None:
        self._connection = None
        self._timer.cancel()
        self._target = self.consume = _discard  # and be no reference cycle
        for waited_for in (self._head, self._over):
            if not waited_for.done():
                waited_for.set_result(None)

    def _leave(self) -> None:
        self._left = True
        then, self._then = self._then, _nothing
        then()

    def _first(self, data: bytes) -> None:
        """Take the first bytes of the body: from here on the other limit holds."""
        self._limit = self._idle
        self._timer.cancel()
        self._timer = self._loop.call_at(self.heard + self._limit, self._watch)
        self.consume = self._target
        self.consume(data)

    def _keep(self, data: bytes) -> None:
        self._kept += data
        self._held = True
        self._flow()

    def _flow(self) -> None:
        if self._connection is not None:
            reading = not (self._paused or self._held)
            self._connection.read(on=reading)
            if reading:
                self.heard = self._loop.time()

    def _watch(self) -> None:
        """Look whether the limit is up; one timer for all reads, set anew when it is not."""
        now = self._loop.time()
        reading = not (self._paused or self._held)
        due = (self.heard if reading else now) + self._limit
        if due > now:
            self._timer = self._loop.call_at(due, self._watch)
        else:
            self.fail(
                unreachable(f"The backend sent nothing for {self._limit:g} seconds.", status=504)
            )


def _nothing() -> None:
    """Nobody waits for the end."""


def _discard(_: bytes) -> None:
    """Take a body nobody wants."""
