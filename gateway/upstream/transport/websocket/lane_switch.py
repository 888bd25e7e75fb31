"""The lanes of one socket: which names are free, and to whom each event goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gateway.upstream.transport.faults import SocketFull, TransientFault, another, unreachable
from gateway.upstream.transport.websocket.event_heads import (
    NOTABLE,
    STEERS,
    TOO_MANY_LANES,
    TOO_MANY_WAIT,
    about_steering,
    edges,
    event,
    head,
    moves_on,
)
from gateway.upstream.transport.websocket.frame_splitter import EDGE
from gateway.upstream.transport.websocket.lane import UpstreamLane
from gateway.upstream.transport.websocket.refusals import refused

if TYPE_CHECKING:
    from gateway.upstream.transport.websocket.limits import SocketCapacity, SocketLimits
    from gateway.upstream.transport.websocket.stream import SocketStream
    from lanes.errors import UpstreamFault


class SwitchConnection(Protocol):
    """What the lanes need of their connection."""

    def send(self, text: bytes) -> None:
        """Send a text frame."""

    def end(self, fault: UpstreamFault) -> None:
        """Close in an orderly way; what still runs ends with the fault."""

    def drop(self, fault: UpstreamFault) -> None:
        """Close now; what runs ends with the fault."""

    def rest(self) -> None:
        """Hear that nothing runs any more."""


class LaneSwitch:
    """Gives out names and sorts events. `steers` is whether the upstream takes any, as is known."""

    def __init__(
        self, wire: SwitchConnection, terms: SocketLimits, room: SocketCapacity, *, native: bool
    ) -> None:
        self._wire = wire
        self._terms = terms
        self._room = room
        self._native = native
        named = [f"lane{number}" for number in range(terms.lanes)]
        self._names: list[str | None] = [None] if terms.lanes == 1 else [*named]
        self._lanes: dict[str | None, UpstreamLane] = {}
        # In the order in which they were first used.
        self._used: dict[str | None, None] = {}
        self._touched: list[SocketStream] = []
        self._retired = False
        self.steers = True
        #: Whether the upstream has begun any response here.
        self.proven = False

    @property
    def busy(self) -> int:
        """How many names are in use."""
        return len(self._lanes)

    @property
    def free_names(self) -> int:
        """How many more responses it takes."""
        return 0 if self._retired else min(len(self._names), self._room.lanes - self.busy)

    def take(self) -> UpstreamLane:
        """A lane for one response; only while there are names."""
        name = self._names.pop()
        self._used[name] = None
        lane = self._lanes[name] = UpstreamLane(self, name, self._terms, native=self._native)
        return lane

    def route(self, messages: list[bytes], now: float) -> None:
        """Take the messages of one read: one call of a sink for each lane."""
        lanes = self._lanes
        touched = self._touched
        for message in messages:
            try:
                about = head(message)
            except ValueError:
                self._fail(message[:EDGE], message[-EDGE:], unreadable())
                continue
            lane = lanes.get(about.stream_id)
            if lane is None:
                self._stray(about.type, about.stream_id, message)
            elif about.type in NOTABLE:
                lane.note(about.type, message)
            elif (stream := lane.stream) is not None:
                if not stream.batch:
                    touched.append(stream)
                stream.batch.append((None, message))
        while touched:
            touched.pop().flush(now)

    def lost(self, fault: UpstreamFault, *, largest: bool = False) -> None:
        """The connection can carry nothing more; with `largest` that was some frame's size."""
        lanes = list(self._lanes.values())
        self._lanes.clear()
        waiting = [lane for lane in lanes if lane.waiting]
        if largest and waiting:
            lane = max(waiting, key=lambda one: one.size)
            text = f"The request of {lane.size} bytes is larger than the backend's socket takes."
            lane.refuse(unreachable(text, status=413))  # sending it once more would not help
        for lane in lanes:
            lane.lost(fault)

    def too_large(self, first: bytes, last: bytes) -> None:
        """An event was passed over, of which these are the two ends: its response alone fails."""
        self._fail(first, last, too_large(self._terms.max_event))

    # -- what the lanes call --

    def send(self, text: bytes) -> None:
        """Send a text frame."""
        self._wire.send(text)

    def give(self, stream: SocketStream, message: bytes) -> None:
        """Hand an event to a stream with the others of this read."""
        if not stream.batch:
            self._touched.append(stream)
        stream.batch.append((None, message))

    def free(self, lane: UpstreamLane, *, again: bool) -> None:
        """The lane is over; `again` says whether its name can be used again."""
        if self._lanes.pop(lane.name, None) is None:
            return
        if again:
            self._names.append(lane.name)
        if self._lanes:
            self.check()
        elif self._retired or not self._names:
            self._wire.end(ended())
        else:
            self._wire.rest()

    def retire(self) -> None:
        """Take no further responses; close when the last one ends."""
        self._retired = True
        if not self._lanes:
            self._wire.end(ended())

    def crowded(self, lane: UpstreamLane, code: str) -> None:
        """Take no more than the upstream does, here and on any other socket of its."""
        taken: list[str | None] = []
        if code == TOO_MANY_LANES:
            taken = list(self._used)[: list(self._used).index(lane.name)]
            self._names = [name for name in self._names if name in taken]
        elif code == TOO_MANY_WAIT:
            taken = list(self._lanes)[: list(self._lanes).index(lane.name)]
        if taken:
            self._room.lanes = min(self._room.lanes, len(taken))
        else:
            self.retire()

    def check(self) -> None:
        """Close if nobody wants any of it: that is what stops the upstream."""
        if self._lanes and not any(lane.wanted for lane in self._lanes.values()):
            self._wire.end(ended())

    def _fail(self, first: bytes, last: bytes, fault: UpstreamFault) -> None:
        """An event cannot be read: its response fails, or all if it does not say whose it is."""
        kind, name = edges(first, last)
        lane = self._lanes.get(name or None)
        if lane is None:
            self._wire.drop(fault)
        else:
            lane.unread(kind, fault)

    # -- events that name no lane in use --

    def _stray(self, kind: object, name: object, message: bytes) -> None:
        if name is not None or not isinstance(kind, str) or not self._lanes:
            return
        if kind == "error":
            self._on_error(message)
        elif kind in STEERS:
            steer = event(message).get("steer")
            for lane in [lane for lane in self._lanes.values() if lane.is_of(steer)]:
                lane.note(kind, message)
        elif kind.startswith("response."):
            if len(self._lanes) > 1:
                text = "The backend's events do not say which lane they are of."
                self._wire.drop(unreachable(text))
            else:
                self._note(next(iter(self._lanes.values())), kind, message)

    def _note(self, lane: UpstreamLane, kind: str, message: bytes) -> None:
        if kind in NOTABLE:
            lane.note(kind, message)
        elif lane.stream is not None:
            self.give(lane.stream, message)

    def _on_error(self, message: bytes) -> None:
        """The socket's error, or that of steers, or of the one response that waits to begin.

        Where several wait, they are all tried elsewhere.
        """
        told = event(message)
        lanes = list(self._lanes.values())
        waiting = [lane for lane in lanes if lane.waiting]
        steering = [lane for lane in lanes if lane.steering]
        if steering and about_steering(told):
            self.steers = False
            for lane in steering:
                lane.unsteerable()
        elif not moves_on(told) and (len(waiting) == 1 or len(lanes) == 1):
            (waiting or lanes)[0].note("error", message)
        else:
            self._retired = True
            kind = SocketFull if moves_on(told) else TransientFault
            fault = another(refused(told, message), kind)
            for lane in waiting:
                lane.refuse(fault)
                self.free(lane, again=False)


def too_large(limit: int) -> UpstreamFault:
    """What happened to a response of which an event has more than `limit` bytes."""
    return unreachable(f"The backend sent an event of more than {limit} bytes.")


def unreadable() -> UpstreamFault:
    """What happened to a response of which an event cannot be read."""
    return unreachable("The backend sent an event that is not JSON.")


def ended() -> UpstreamFault:
    """What happened to a socket that nobody wanted any more."""
    return unreachable("The gateway has closed the socket to the backend.", kind=TransientFault)
