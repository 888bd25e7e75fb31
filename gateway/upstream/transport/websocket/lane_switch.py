"""The lanes of one socket: which names are free, and which lane each event belongs to (D25)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gateway.upstream.transport.faults import TransientFault, backend_fault, copy_fault
from gateway.upstream.transport.websocket.error_events import error_event_fault
from gateway.upstream.transport.websocket.event_heads import (
    NOTABLE,
    STEERS,
    TOO_MANY_LANES,
    TOO_MANY_QUEUED,
    is_about_steering,
    is_socket_limit,
    read_edges,
    read_event,
    read_head,
)
from gateway.upstream.transport.websocket.frame_splitter import EDGE
from gateway.upstream.transport.websocket.lane import UpstreamLane
from lanes.stream.upstream_events import carries_nothing

if TYPE_CHECKING:
    from gateway.upstream.transport.websocket.limits import WebSocketCapacity, WebSocketLimits
    from gateway.upstream.transport.websocket.stream import WebSocketStream
    from lanes.errors import UpstreamFault


class SwitchConnection(Protocol):
    """The socket of the lanes, as far as they use it."""

    def send(self, text: bytes, rest: bytes = b"") -> None:
        """Send a text frame (see `LaneConnection.send`)."""

    def end(self, fault: UpstreamFault) -> None:
        """Send a close frame; running responses end with the fault."""

    def drop(self, fault: UpstreamFault) -> None:
        """Close now; running responses end with the fault."""

    def rest(self) -> None:
        """Note that no response runs any more."""


class LaneSwitch:
    """Hands out the names of lanes and routes each event to its lane.

    Args:
        socket: The socket of these lanes.
        limits: The limits of the socket.
        capacity: How many responses a socket of this backend carries.
        native: Whether the backend itself can steer the streams.
    """

    def __init__(
        self,
        socket: SwitchConnection,
        limits: WebSocketLimits,
        capacity: WebSocketCapacity,
        *,
        native: bool,
    ) -> None:
        self._socket = socket
        self._limits = limits
        self._capacity = capacity
        self._native = native
        names = [f"lane{number}" for number in range(limits.lanes)]
        self._names: list[str | None] = [None] if limits.lanes == 1 else [*names]
        self._lanes: dict[str | None, UpstreamLane] = {}
        # All names ever used, the first used first.
        self._used: dict[str | None, None] = {}
        self._touched: list[WebSocketStream] = []
        self._retired = False
        #: Whether the backend accepts steers, as far as the gateway knows.
        self.takes_steers = True
        #: Whether the backend ends a response when it is asked to.
        self.takes_cancel = False
        #: Whether the backend has begun any response on this socket.
        self.proven = False

    @property
    def busy(self) -> int:
        """How many responses run."""
        return len(self._lanes)

    @property
    def free_names(self) -> int:
        """How many more responses the socket takes."""
        return 0 if self._retired else min(len(self._names), self._capacity.lanes - self.busy)

    @property
    def drags(self) -> bool:
        """Whether a response that nobody wants runs on, as it cannot be cancelled by itself."""
        return not self.takes_cancel and not all(lane.wanted for lane in self._lanes.values())

    def take(self) -> UpstreamLane:
        """Return a lane for one response; requires a free name."""
        name = self._names.pop()
        self._used[name] = None
        lane = self._lanes[name] = UpstreamLane(self, name, self._limits, native=self._native)
        return lane

    def route(self, messages: list[bytes], now: float) -> None:
        """Route the messages of one read: one call of a sink for each lane."""
        lanes = self._lanes
        touched = self._touched
        for message in messages:
            try:
                about = read_head(message)
            except ValueError:
                self._on_unreadable(message)
                continue
            lane = lanes.get(about.stream_id)
            if lane is None:
                self._route_unnamed(about.type, about.stream_id, message)
            elif about.type in NOTABLE:
                lane.note(about.type, message)
            elif (stream := lane.stream) is not None:
                if not stream.batch:
                    touched.append(stream)
                stream.batch.append((None, message))
        while touched:
            touched.pop().flush(now)

    def lost(self, fault: UpstreamFault, *, too_big: bool = False) -> None:
        """End all lanes, because the socket is closed; `too_big`: a frame was too large."""
        lanes = list(self._lanes.values())
        self._lanes.clear()
        waiting = [lane for lane in lanes if lane.waiting]
        if too_big and waiting:
            lane = max(waiting, key=lambda one: one.size)
            text = f"The request of {lane.size} bytes is larger than the backend's socket takes."
            lane.refuse(backend_fault(text, status=413))  # another attempt would fail, too
        for lane in lanes:
            lane.lost(fault)

    def too_large(self, first: bytes, last: bytes) -> None:
        """Fail the one response whose event was skipped; these are the two ends of the event."""
        self._fail_lane(first, last, event_too_large(self._limits.max_event))

    # -- LaneConnection: what the lanes call --

    def send(self, text: bytes, rest: bytes = b"") -> None:
        """Send a text frame (see `LaneConnection.send`)."""
        self._socket.send(text, rest)

    def give(self, stream: WebSocketStream, message: bytes) -> None:
        """Add an event to the stream's batch (see `LaneConnection.give`)."""
        if not stream.batch:
            self._touched.append(stream)
        stream.batch.append((None, message))

    def free(self, lane: UpstreamLane, *, reusable: bool) -> None:
        """Remove a lane (see `LaneConnection.free`)."""
        if self._lanes.pop(lane.name, None) is None:
            return
        if reusable:
            self._names.append(lane.name)
        if self._lanes:
            self.close_if_unwanted()
        elif self._retired or not self._names:
            self._socket.end(socket_closed())
        else:
            self._socket.rest()

    def retire(self) -> None:
        """Take no more responses (see `LaneConnection.retire`)."""
        self._retired = True
        if not self._lanes:
            self._socket.end(socket_closed())

    def reduce(self, lane: UpstreamLane, code: str) -> None:
        """Learn how many responses the backend accepts (see `LaneConnection.reduce`)."""
        accepted: list[str | None] = []
        if code == TOO_MANY_LANES:
            accepted = list(self._used)[: list(self._used).index(lane.name)]
            self._names = [name for name in self._names if name in accepted]
        elif code == TOO_MANY_QUEUED:
            accepted = list(self._lanes)[: list(self._lanes).index(lane.name)]
        if accepted:
            self._capacity.lanes = min(self._capacity.lanes, len(accepted))
        else:
            self.retire()

    def close_if_unwanted(self) -> None:
        """Close if no response is wanted (see `LaneConnection.close_if_unwanted`)."""
        if self._lanes and not any(lane.wanted for lane in self._lanes.values()):
            self._socket.end(socket_closed())

    def _on_unreadable(self, message: bytes) -> None:
        """Fail the response of an event that is not JSON, unless it carries nothing."""
        if not carries_nothing(message):
            self._fail_lane(message[:EDGE], message[-EDGE:], event_unreadable())

    def _fail_lane(self, first: bytes, last: bytes, fault: UpstreamFault) -> None:
        """Fail the response of an unreadable event; all responses if it names no lane."""
        kind, name = read_edges(first, last)
        lane = self._lanes.get(name or None)
        if lane is None:
            self._socket.drop(fault)
        else:
            lane.on_skipped(kind, fault)

    # -- events that name no lane in use --

    def _route_unnamed(self, kind: object, name: object, message: bytes) -> None:
        if name is not None or not isinstance(kind, str) or not self._lanes:
            return
        if kind == "error":
            self._on_error(message)
        elif kind in STEERS:
            steer = read_event(message).get("steer")
            for lane in [lane for lane in self._lanes.values() if lane.owns_steer(steer)]:
                lane.note(kind, message)
        elif kind.startswith("response."):
            if len(self._lanes) > 1:
                text = "The backend's events do not say which lane they are of."
                self._socket.drop(backend_fault(text))
            else:
                self._note(next(iter(self._lanes.values())), kind, message)

    def _note(self, lane: UpstreamLane, kind: str, message: bytes) -> None:
        if kind in NOTABLE:
            lane.note(kind, message)
        elif lane.stream is not None:
            self.give(lane.stream, message)

    def _on_error(self, message: bytes) -> None:
        """Take an error of the socket, of steers, or of the one response that waits to begin.

        Where several wait, all of them go to another socket.
        """
        error = read_event(message)
        lanes = list(self._lanes.values())
        waiting = [lane for lane in lanes if lane.waiting]
        steering = [lane for lane in lanes if lane.steering]
        if steering and is_about_steering(error):
            self.takes_steers = False
            for lane in steering:
                lane.refuse_steers()
        elif not is_socket_limit(error) and (len(waiting) == 1 or len(lanes) == 1):
            (waiting or lanes)[0].note("error", message)
        else:
            self._retired = True
            for lane in waiting:
                waited = 0.0 if lane.stream is None else lane.stream.waited
                fault = error_event_fault(error, message, waited)
                transient = isinstance(fault, TransientFault)
                lane.refuse(fault if transient else copy_fault(fault, TransientFault))
                self.free(lane, reusable=False)


def event_too_large(limit: int) -> UpstreamFault:
    """Return the fault of a response that has an event of more than `limit` bytes."""
    return backend_fault(f"The backend sent an event of more than {limit} bytes.")


def event_unreadable() -> UpstreamFault:
    """Return the fault of a response that has an event which is not JSON."""
    return backend_fault("The backend sent an event that is not JSON.")


def socket_closed() -> UpstreamFault:
    """Return the fault of a socket that the gateway closed because nobody wanted it."""
    return backend_fault("The gateway has closed the socket to the backend.", kind=TransientFault)
