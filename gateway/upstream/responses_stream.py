"""SHELL: a backend's stream as the Responses API speaks, its end and what breaks it off (D46)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.upstream.stream_start import StreamStart, start_of
from lanes.codec import decode_lenient
from lanes.errors import UpstreamFault
from lanes.stream.upstream_events import says_something, unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.upstream.converter import Converter
    from gateway.upstream.transport.http.stream import HttpStream
    from gateway.upstream.transport.websocket.stream import WebSocketStream
    from lanes.ports import BackendSteering, Event
    from lanes.stream.profile import Profile

#: What is in each event of the Responses API that carries anything, and in a whole response.
_RESPONSES: Final = b'"response'


class ResponsesStream:
    """Implements gateway.upstream.tracked_stream.TrackedStream.

    Args:
        stream: The stream of the transport.
        profile: How far it can be trusted.
        notice: Hears of the fault that breaks it off.
        converter: Reads its events, where they need it.
        steering: Steers it, where the backend itself can.
        other: Makes the converter of a stream that turns out to be of Chat Completions.
    """

    def __init__(
        self,
        stream: HttpStream | WebSocketStream,
        profile: Profile,
        notice: Callable[[UpstreamFault], None],
        converter: Converter | None,
        steering: BackendSteering | None,
        other: Callable[[], Converter] | None = None,
    ) -> None:
        self.profile = profile
        self.steering = steering
        #: What its first events say, once `begin` has waited for them.
        self.start = StreamStart()
        self._stream = stream
        self._notice = notice
        self._converter = converter
        self._other = other
        self.release, self.close = stream.release, stream.close
        self.afterwards = stream.afterwards
        self._paused = False
        self._timer: asyncio.TimerHandle | None = None
        self._broken: Exception | None = None

    def pause(self) -> None:
        """Read no more until `resume`. Idempotent."""
        self._paused = True
        self._stream.pause()

    def resume(self) -> None:
        """Read on. Idempotent."""
        self._paused = False
        self._stream.resume()

    async def begin(self) -> StreamStart:
        """Wait for the first events, which `relay` passes on later, and return what they say.

        Raises UpstreamFault as `relay` does. Cancelling closes the connection. Call once.
        """
        try:
            self.start = start_of(await self._stream.first(says_something))
        except UpstreamFault as fault:
            self._notice(fault)
            raise
        return self.start

    async def relay(self, sink: Callable[[list[Event]], None]) -> None:
        """Relay it (see `HttpStream.relay`)."""
        receive = sink
        if self._converter is not None:
            receive = self._converting(self._converter, sink)
        elif self._other is not None:
            receive = partial(self._recognise, self._other, sink)
        try:
            try:
                await self._stream.relay(receive)
            finally:
                if self._timer is not None:
                    self._stop_timer()
            if self._broken is not None:
                raise self._broken
            if self._converter is not None:
                sink(self._converter.finish())
        except UpstreamFault as fault:
            self._notice(fault)
            if self._converter is not None:
                sink(self._converter.finish())  # perhaps only the end is missing
            raise

    def _recognise(
        self,
        other: Callable[[], Converter],
        sink: Callable[[list[Event]], None],
        events: list[Event],
    ) -> None:
        """Take the first reads, up to an event that shows which form the stream has.

        Args:
            other: See the class.
            sink: Takes the events.
            events: Those of a read.
        """
        receive = sink
        for _, data in events:
            chunk = _is_chunk(data)
            if chunk:
                self._converter = other()
                receive = self._converting(self._converter, sink)
            if chunk or _RESPONSES in data:
                self._stream.redirect(receive)
                break
        receive(events)

    def _converting(
        self, converter: Converter, sink: Callable[[list[Event]], None]
    ) -> Callable[[list[Event]], None]:
        """Return what relays what the converter makes of each read, up to the grace at its end."""
        feed = converter.feed

        def finish() -> None:
            sink(converter.finish())

        def receive(events: list[Event]) -> None:
            converted = feed(events)
            if converter.ending and (converted or self._timer is None):
                self._await_end(finish)
            sink(converted)

        return receive

    def _await_end(self, finish: Callable[[], None]) -> None:
        """End the stream if nothing more comes within the grace. Some backends never end theirs."""
        self._stop_timer()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self.profile.grace, self._end, finish)

    def _end(self, finish: Callable[[], None]) -> None:
        if self._paused:  # what has come meanwhile is not read yet
            self._await_end(finish)
            return
        try:
            finish()
        except Exception as error:  # noqa: BLE001  `relay` raises it, not the event loop (D18)
            self._broken = error
        self._stream.release()

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None  # it refers to this stream
        if timer is not None:
            timer.cancel()


def _is_chunk(data: bytes) -> bool:
    """Return whether an event is a chunk, or a whole answer, of Chat Completions."""
    if b'"choices"' not in data:
        return False
    try:
        value = decode_lenient(data)
    except ValueError:
        return False
    value = unwrapped(value) or value
    return isinstance(value, dict) and isinstance(value.get("choices"), list)
