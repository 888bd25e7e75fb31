"""SHELL: the frames of one connection that wait for a large one, which a thread reads (D33)."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from gateway.client.large_frames import is_large, read_large
from lanes.cpu_thread import run_in_cpu_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.client.frames import FrameRefusal
    from gateway.client.large_frames import FrameLimits
    from lanes.frames import Cancel, Create
    from steering.frames import Steer

    Frame = Create | Steer | Cancel | FrameRefusal

#: Bytes that may wait before the client has to wait, too.
_MAX_WAITING: Final = 1024 * 1024


class PausableSocket(Protocol):
    """Where the frames come from."""

    def hold(self) -> None:
        """Read nothing more until `go_on`. Idempotent."""

    def go_on(self) -> None:
        """Read on. Idempotent."""


class FrameQueue:
    """Reads frames in the order in which they came, from a large one until none waits.

    Args:
        socket: Is told to wait while too much waits here.
        limits: What a large frame may hold.
        default_model: Serves a create without a `model`.
    """

    __slots__ = ("_bytes", "_default_model", "_frames", "_limits", "_socket", "busy")

    def __init__(
        self, socket: PausableSocket, limits: FrameLimits, default_model: str | None
    ) -> None:
        #: Whether frames wait or one is being read: then every further one belongs here.
        self.busy = False
        self._socket = socket
        self._limits = limits
        self._default_model = default_model
        # Made when it is needed: an empty one costs an idle connection most of a KiB.
        self._frames: deque[tuple[bytes, bool]] | None = None
        self._bytes = 0

    def put(self, data: bytes, *, is_text: bool) -> bool:
        """Queue a frame; return whether `run` has to be started."""
        if self._frames is None:
            self._frames = deque()
        self._frames.append((data, is_text))
        self._bytes += len(data)
        if self._bytes > _MAX_WAITING and self.busy:
            self._socket.hold()
        starts, self.busy = not self.busy, True
        return starts

    async def run(self, take: Callable[[bytes, bool, Frame | None], None]) -> None:
        """Have each waiting frame taken, the large ones once they are read, until none waits."""
        while self._frames:
            data, is_text = self._frames.popleft()
            self._bytes -= len(data)
            if self._bytes <= _MAX_WAITING:
                self._socket.go_on()
            if not is_large(data):
                take(data, is_text, None)
                await asyncio.sleep(0)
            else:
                limits, model = self._limits, self._default_model
                take(data, is_text, await run_in_cpu_thread(read_large, data, limits, model))
            del data
        self._frames = None
        self.busy = False
