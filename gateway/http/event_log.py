"""The events of a response that runs for nobody in particular, and those who follow them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio

from gateway.client.outbox import PacedStreams
from gateway.http.collector import response_in
from gateway.http.sse import sse_event
from lanes.codec import encode
from lanes.cpu_thread import run_in_cpu_thread
from lanes.events import Stamp
from lanes.stores.packing import THREAD_OVER
from lanes.stream.rebuilt import rebuilt_events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.http.sse import SseWriter
    from lanes.errors import Fault

#: Bytes of events kept for one response. A delta of one letter is an event of three hundred
#: bytes, so the bound on output alone (`max_output_bytes`) would allow gigabytes.
MAX_BYTES = 64 * 1024 * 1024
#: Bytes that a follower takes at a time, so that its client's pace is felt between two of them.
_SLICE = 256 * 1024
#: How the events begin that a response may begin with.
_BEGUN = tuple(b"event: response.%b\n" % kind for kind in (b"created", b"queued", b"in_progress"))


class EventLog(PacedStreams):
    """Implements `lanes.ports.Outbox`: keeps all events, as no client's pace governs it.

    Attributes:
        events: The events so far as server-sent events; each is in the place of its number.
        decided: Set once the first event is there, or the fault instead of any.
        over: Set once there will be no more events.
        fault: Why there is no response.
        response: The response object, once it is over without a fault.
    """

    def __init__(self) -> None:
        super().__init__()
        self.events: list[bytes] = []
        self.decided = anyio.Event()
        self.over = anyio.Event()
        self.fault: Fault | None = None
        self.response = b""
        self.followers: set[LogFollower] = set()
        self._last = self._begun = self._first = b""
        self._size = 0
        self._soon = asyncio.get_running_loop().call_soon
        #: Called once there are more events than are kept.
        self.on_full: Callable[[], None] = _nothing

    @classmethod
    async def of(cls, response: bytes) -> EventLog:
        """Return the log of a response that is over, made again from its final object."""
        log = cls()
        log.extend(await events_of(response))
        log.response = response
        log.close()
        return log

    def put(self, stamp: Stamp, body: bytes, *more: bytes) -> None:
        """Add the number to an event and keep it.

        Args:
            stamp: The numbering of its response.
            body: Its JSON without the closing brace.
            more: The rest of that, if it was made in pieces.
        """
        if more:
            body = b"".join((body, *more))
        self._last = body
        event = sse_event(stamp, body)
        self.events.append(event)
        if self._size <= MAX_BYTES < self._size + len(event):
            self._soon(self.on_full)  # the run that emits this is not to be stopped within it (D27)
        self._size += len(event)
        if len(self.events) <= len(_BEGUN) and event.startswith(_BEGUN):
            self._begun, self._first = body, self._first or body
            self.decided.set()
        for follower in self.followers:
            follower.wake()

    def put_event(self, stamp: Stamp, event: dict[str, Any]) -> None:
        """Encode an event and keep it (see `Outbox.put_event`)."""
        self.put(stamp, encode(event)[:-1])

    def error(self, fault: Fault, stream_id: str | None) -> None:  # noqa: ARG002  (no lanes here)
        """Keep why there is no response."""
        self.fault = fault

    @property
    def first(self) -> bytes:
        """The response object of the first event."""
        return response_in(self._first)

    @property
    def snapshot(self) -> bytes:
        """The response object as it is now; there is one once `decided`, unless there is a fault.

        While the response runs it is that of its latest beginning: queued, or in progress.
        """
        return self.response or response_in(self._begun)

    def extend(self, events: Sequence[bytes]) -> None:
        """Keep events that have their numbers already."""
        self.events += events
        self.decided.set()
        self._wake()

    def end(self) -> None:
        """Note that the worker is done."""
        self.on_full = _nothing  # it leads to the worker, and so back here (D13)
        if self.fault is None:
            self.response = response_in(self._last)
        self.close()

    def close(self) -> None:
        """Note that there will be no more events."""
        self.decided.set()
        self.over.set()
        self._wake()

    def _wake(self) -> None:
        for follower in self.followers:
            follower.wake()


async def events_of(response: bytes) -> list[bytes]:
    """Return the events of a response that is over, by a thread if they are large (D33)."""
    large = len(response) > THREAD_OVER
    return await run_in_cpu_thread(_events_of, response) if large else _events_of(response)


def _events_of(response: bytes) -> list[bytes]:
    stamp = Stamp(None)
    return [sse_event(stamp, body) for body in rebuilt_events(response)]


def _nothing() -> None:
    """Do nothing: the response is over, or its worker is not known yet."""


class LogFollower:
    """Implements `gateway.http.sse.EventSource`: sends one client what is in a log, and what comes.

    Attributes:
        decided: The log's.
        over: Set once all of the log was sent.
    """

    def __init__(self, log: EventLog, start: int = 0) -> None:
        self.decided = log.decided
        self.over = anyio.Event()
        self._log = log
        self._next = start
        self._writer: SseWriter | None = None
        self._full = False
        self._woken = False
        self._soon = asyncio.get_running_loop().call_soon

    @property
    def fault(self) -> Fault | None:
        """Why there is no response."""
        return self._log.fault

    def open(self, writer: SseWriter) -> None:
        """Send what is there and what comes by this writer."""
        self._writer = writer
        self._log.followers.add(self)
        self.flush()

    def wake(self) -> None:
        """Send what has come at the end of the event loop's turn."""
        if not self._woken:
            self._woken = True
            self._soon(self.flush)

    def flush(self) -> None:
        """Send a slice of what is there, and the rest in later turns."""
        self._woken = False
        if self._writer is None or self._full:
            return
        events, size = self._log.events, 0
        start = self._next
        while self._next < len(events) and size < _SLICE:
            size += len(events[self._next])
            self._next += 1
        if size:
            self._writer.write(events[start : self._next], size)
        if self._next < len(events):
            self.wake()
        elif self._log.over.is_set():
            self._log.followers.discard(self)
            self.over.set()

    def pause(self) -> None:
        """Send no more until the client has caught up."""
        self._full = True

    def resume(self) -> None:
        """Go on."""
        self._full = False
        self.flush()

    def leave(self) -> None:
        """Follow no more: the client is gone."""
        self._writer = None
        self._log.followers.discard(self)
