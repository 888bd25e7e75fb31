"""Writes to one client's transport: bounded by its water marks, and watched for a stall (D10)."""

from __future__ import annotations

import array
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if sys.platform == "linux":
    import fcntl
    import termios

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class WaterMarks:
    """How much of what is written may wait for the client, and who is told of it (D10).

    Attributes:
        high: Unsent bytes at which a connection is full.
        stall_timeout: Seconds in which a full one has to get rid of something.
        on_full: Called when it gets full.
        on_room: Called when half of `high` is left.
    """

    high: int
    stall_timeout: float
    on_full: Callable[[], None]
    on_room: Callable[[], None]


class PacedWriter:
    """The bytes of one socket that its client has not taken yet.

    Its protocol calls `full` and `room` when the transport passes a water mark, and `close` when
    the transport is gone.
    """

    __slots__ = (
        *("_on_full", "_on_room", "_on_stall", "_timeout", "_transport", "_watch"),
        *("loop", "written"),
    )

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self.loop = loop
        #: Bytes written so far; whoever writes past `write` adds to it.
        self.written = 0
        self._on_full: Callable[[], None] | None = None
        self._on_room: Callable[[], None] | None = None
        self._on_stall: Callable[[], None] | None = None
        self._timeout = 0.0
        self._watch: asyncio.TimerHandle | None = None

    def bound(self, marks: WaterMarks, on_stall: Callable[[], None]) -> None:
        """Bound the unsent bytes; `on_stall` is called when a full socket lost none in time.

        Does nothing on a transport that closes: an answer may come as its client leaves.
        """
        if self._transport.is_closing():
            return
        self._on_full, self._on_room, self._on_stall = marks.on_full, marks.on_room, on_stall
        self._timeout = marks.stall_timeout
        self._transport.set_write_buffer_limits(high=marks.high, low=marks.high // 2)

    def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        self.written += len(data)
        self._transport.write(data)

    @property
    def unsent(self) -> int:
        """Bytes that the kernel has not taken yet."""
        return self._transport.get_write_buffer_size()

    @property
    def drained(self) -> int:
        """Bytes that the peer has acknowledged."""
        return self.written - self.unsent - unacknowledged(self._transport)

    @property
    def watched(self) -> bool:
        """Whether the socket is full, and its stall timeout runs."""
        return self._watch is not None

    def full(self) -> None:
        """Report that the transport is over the high-water mark, and watch for a stall."""
        if self._on_full is not None:
            self._on_full()
            self._watch_from(self.drained)

    def room(self) -> None:
        """Report that the transport is below the low-water mark."""
        self.unwatch()
        if self._on_room is not None:
            self._on_room()

    def unwatch(self) -> None:
        """Stop to watch for a stall."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def close(self) -> None:
        """Forget the callbacks: the transport is gone."""
        self.unwatch()
        self._on_full = self._on_room = self._on_stall = None

    def _watch_from(self, drained: int) -> None:
        self.unwatch()
        self._watch = self.loop.call_later(self._timeout, self._check, drained)

    def _check(self, drained: int) -> None:
        if self.drained > drained:
            self._watch_from(self.drained)
        elif self._on_stall is not None:
            self._on_stall()


def unacknowledged(transport: asyncio.Transport) -> int:
    """Return the bytes in the kernel that the peer has not acknowledged; 0 outside of Linux.

    The kernel buffers megabytes and accepts more only once a third of them is gone. Judged by
    that alone, a dead peer looks alive and a slow one dead.
    """
    if sys.platform != "linux":
        return 0
    sock = transport.get_extra_info("socket")
    if sock is None or sock.fileno() < 0:
        return 0
    size = array.array("i", [0])
    fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, size)
    return size[0]
