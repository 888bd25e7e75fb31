"""What the routing of requests needs to know of a stream beside its events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lanes.ports import Stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.upstream.stream_start import StreamStart


class BegunStream(Stream, Protocol):
    """A stream whose first events are known before it is relayed."""

    @property
    def start(self) -> StreamStart:
        """What its first events say."""


class TrackedStream(BegunStream, Protocol):
    """A stream that says when its request has left the backend."""

    def afterwards(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the backend is done with the request, at once if it is."""
