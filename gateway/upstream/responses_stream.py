"""A backend's stream that speaks as the Responses API does, and says when it breaks off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.errors import UpstreamFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.upstream.converter import Converter
    from gateway.upstream.transport.http.stream import HttpStream
    from gateway.upstream.transport.websocket.stream import WebSocketStream
    from lanes.ports import BackendSteering, Event
    from lanes.stream.profile import Profile


class ResponsesStream:
    """Implements gateway.upstream.backend.TrackedStream.

    Args:
        stream: The stream of the transport.
        profile: How far it can be trusted.
        notice: Hears of the fault that breaks it off.
        converter: Reads its events, where they need it.
        steering: Steers it, where the backend itself can.
    """

    def __init__(
        self,
        stream: HttpStream | WebSocketStream,
        profile: Profile,
        notice: Callable[[UpstreamFault], None],
        converter: Converter | None,
        steering: BackendSteering | None,
    ) -> None:
        self.profile = profile
        self.steering = steering
        self._stream = stream
        self._notice = notice
        self._converter = converter
        self.pause, self.resume = stream.pause, stream.resume
        self.release, self.close = stream.release, stream.close
        self.afterwards = stream.afterwards

    async def first(self, meant: Callable[[Event], bool]) -> list[Event]:
        """Wait for the first events (see `HttpStream.first`)."""
        try:
            return await self._stream.first(meant)
        except UpstreamFault as fault:
            self._notice(fault)
            raise

    async def relay(self, sink: Callable[[list[Event]], None]) -> None:
        """Relay it (see `HttpStream.relay`)."""
        try:
            if self._converter is None:
                await self._stream.relay(sink)
            else:
                feed = self._converter.feed
                await self._stream.relay(lambda events: sink(feed(events)))
                sink(self._converter.finish())
        except UpstreamFault as fault:
            self._notice(fault)
            if self._converter is not None:
                sink(self._converter.finish())  # perhaps only the end is missing
            raise
