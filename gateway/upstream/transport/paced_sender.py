"""Writes to a backend in pieces, so that a large request holds nobody up (D33)."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Bytes that are written, and encrypted if it is TLS, in one turn of the event loop.
PIECE: Final = 128 * 1024


class PacedSender:
    """Writes to one transport, in order: what is small at once, what is large piece by piece.

    While the transport has no room nothing more is written of what is large. Without a transport,
    or once it closes, what is written is dropped.

    Attributes:
        transport: Where it writes to.
        waiting: What is still to be written.
        full: Whether the transport has no room.
    """

    __slots__ = ("_drained", "_soon", "full", "transport", "waiting")

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.waiting: deque[Iterator[bytes | memoryview]] = deque()
        self.full = False
        self._soon: asyncio.Handle | None = None
        self._drained: asyncio.Future[None] | None = None

    def write(self, data: list[bytes]) -> None:
        """Write what is small, behind all that waits."""
        if self.waiting:
            self.waiting.append(iter(data))
        elif self.transport is not None and not self.transport.is_closing():
            self.transport.writelines(data)

    def write_large(self, pieces: Iterable[bytes | memoryview]) -> None:
        """Write what is large, in pieces that `cut` or another made short."""
        self.waiting.append(iter(pieces))
        self._go_on()

    async def drained(self) -> None:
        """Wait until nothing waits any more and the transport has room; only one may wait."""
        if self.full or self.waiting:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained

    def pause(self) -> None:
        """Note that the transport has no room."""
        self.full = True

    def resume(self) -> None:
        """Note that it has room again."""
        self.full = False
        self._go_on()
        self._tell()

    def close(self) -> None:
        """Write nothing more."""
        self.transport = None
        self.waiting.clear()
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        self.full = False
        self._tell()

    def _go_on(self) -> None:
        if self._soon is None and self.waiting and not self.full:
            self._soon = asyncio.get_running_loop().call_soon(self._write_piece)

    def _write_piece(self) -> None:
        self._soon = None
        if self.transport is None or self.transport.is_closing():
            self.close()
            return
        while self.waiting:
            piece = next(self.waiting[0], None)
            if piece is not None:
                self.transport.write(piece)
                break
            self.waiting.popleft()
        self._go_on()
        self._tell()

    def _tell(self) -> None:
        if self._drained is not None and not (self.full or self.waiting):
            waiter, self._drained = self._drained, None
            if not waiter.done():
                waiter.set_result(None)


class PacedProtocol(asyncio.Protocol):
    """A protocol with a sender that knows when the transport has room."""

    def __init__(self) -> None:
        self._sender = PacedSender()

    def pause_writing(self) -> None:
        """Note that the peer takes nothing at the moment."""
        self._sender.pause()

    def resume_writing(self) -> None:
        """Note that it does again."""
        self._sender.resume()


def cut(data: bytes) -> Iterator[memoryview]:
    """Yield some bytes in pieces, without copying them."""
    view = memoryview(data)
    return (view[at : at + PIECE] for at in range(0, len(view), PIECE))
