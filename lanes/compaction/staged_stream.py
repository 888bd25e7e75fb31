"""SHELL: one stream of several answers, one after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lanes.ports import BackendSteering, Event, Stream
    from lanes.stream.profile import Profile


class StagedStream(ABC):
    """Implements `lanes.ports.Stream`; `relay` says what is relayed of which answer.

    Args:
        first: The first answer, of which the head is there.
    """

    def __init__(self, first: Stream) -> None:
        self.profile: Profile = first.profile
        #: No steer fits a response that is not one of the backend's.
        self.steering: BackendSteering | None = None
        self._stage: Stream | None = first
        self._wanted = True
        self._paused = False
        self._opening: anyio.CancelScope | None = None

    @abstractmethod
    async def relay(self, sink: Callable[[list[Event]], None]) -> None:
        """Call `sink` with the events (see `Stream.relay`)."""

    def pause(self) -> None:
        """Read no more until `resume`. Idempotent."""
        self._paused = True
        if self._stage is not None:
            self._stage.pause()

    def resume(self) -> None:
        """Read on. Idempotent."""
        self._paused = False
        if self._stage is not None:
            self._stage.resume()

    def release(self) -> None:
        """Want nothing more (see `Stream.release`)."""
        self._wanted = False
        if self._stage is not None:
            self._stage.release()

    def close(self) -> None:
        """Cancel the answer that comes, or that is waited for. Idempotent."""
        self._wanted = False
        if self._stage is not None:
            self._stage.close()
        if self._opening is not None:
            self._opening.cancel()

    async def _relay_stage(self, stream: Stream, sink: Callable[[list[Event]], None]) -> None:
        """Relay one answer."""
        self._stage = stream
        if self._paused:
            stream.pause()
        try:
            await stream.relay(sink)
        finally:
            self._stage = None

    async def _open_stage(self, opening: Callable[[], Awaitable[Stream]]) -> Stream | None:
        """Return the next answer; None if nothing more is wanted."""
        if not self._wanted:
            return None
        opened: list[Stream] = []
        with anyio.CancelScope() as self._opening:
            opened.append(await opening())
        return opened[0] if opened else None
