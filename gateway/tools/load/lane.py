"""One lane of a load connection: what it sends, and what its events mean for the counters."""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING

from gateway.tools.load.lane_checks import EventMeaning, LaneCheck
from gateway.tools.load.markers import MarkerPlace
from gateway.tools.load.plan import ChainHead
from gateway.tools.load.response_checks import SentCreate
from gateway.tools.load.server_events import error_code
from gateway.tools.load.steer_checks import SteerState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway.tools.load.client_events import ClientEvents
    from gateway.tools.load.lane_checks import ResponseOwners
    from gateway.tools.load.response_checks import ResponseCheck
    from gateway.tools.load.send_queue import SendQueue
    from gateway.tools.load.server_events import ServerEvent
    from gateway.tools.load.steer_checks import SentSteers
    from gateway.tools.load.tally import Tally

_TEXT_DELTA = "response.output_text.delta"


class LoadLane:
    """What a lane has sent, what it can continue from, and the check of its events.

    Args:
        name: Its `stream_id`.
        outgoing: Makes the creates and steers of the connection.
        send: Sends one text message.
        tally: Where everything is counted.
        queue: Decides when the lane sends.
        lanes: All lanes of the connection by name.
        owners: The lanes of the connection's response ids.
        steers: The connection's steers.
    """

    def __init__(
        self,
        name: str,
        outgoing: ClientEvents,
        send: Callable[[bytes], None],
        *,
        tally: Tally,
        queue: SendQueue,
        lanes: Mapping[str, LoadLane],
        owners: ResponseOwners,
        steers: SentSteers,
    ) -> None:
        self.name = name
        self.check = LaneCheck(name, owners, steers)
        self.head: ChainHead | None = None
        self.sent = 0
        self.queued = False  # in line for its next create
        self.over = False  # given up: whatever still comes is ignored
        self._outgoing = outgoing
        self._send = send
        self._tally = tally
        self._queue = queue
        self._lanes = lanes

    def send(self) -> None:
        """Send the next create."""
        outgoing, running = self._outgoing, self.check.running
        before = running.create if running else None
        own = self.head
        if running and before:
            own = ChainHead(running.id or "", before.turn, before.steers)
        others = [lane.head for lane in self._lanes.values() if lane is not self and lane.head]
        parent = outgoing.parent(own, others)
        create = SentCreate(f"{outgoing.marker}.{self.name}.{self.sent}")
        if parent:
            create.parent, create.turn, create.steers = parent.id, parent.turn + 1, parent.steers
        self.sent += 1
        create.sent = create.last = monotonic_ns()
        self.check.add(create)
        self._tally.started += 1
        self._tally.forks += parent is not None and parent != own
        self._send(outgoing.create(self.name, create))

    def receive(self, event: ServerEvent, now: int) -> None:
        """Check one event and count it; `now` is in nanoseconds."""
        check = self.check
        meaning = check.feed(event)
        if meaning is EventMeaning.WITHIN and check.running is not None:
            self._within(check.running.create, event, now)
        elif meaning is EventMeaning.STARTED and check.running is not None:
            self._started(check.running.create, now)
        elif meaning is EventMeaning.ENDED:
            self._ended(event, now)
        elif meaning is EventMeaning.REFUSED:
            self._refused(event)
        elif meaning is EventMeaning.STEERED:
            self._steered(event, now)

    def free_if_idle(self) -> None:
        """Queue the next create, unless a response runs or a steer has no verdict yet."""
        if self.check.running is None and not self.check.steers.awaited:
            self._queue.free(self)

    def _within(self, create: SentCreate, event: ServerEvent, now: int) -> None:
        if self._outgoing.timed:
            self._tally.gap.add(now - create.last)
        if create.watched and event.delta is not None:
            self._on_watched_delta(create, event, now)
        create.last = now

    def _on_watched_delta(self, create: SentCreate, event: ServerEvent, now: int) -> None:
        """Take a delta that may be the first one, or the one to steer at."""
        if not create.has_delta:
            create.has_delta = True
            if self._outgoing.timed and create.steer is None:
                self._tally.first_delta.add(now - create.sent)
        if create.steer_at is None:
            create.watched = False
        elif event.sequence_number >= create.steer_at and event.type == _TEXT_DELTA:
            create.watched = False
            self._steer()

    def _steer(self) -> None:
        """Steer the running response."""
        outgoing, running = self._outgoing, self.check.running
        assert running is not None
        marker, value = outgoing.next_steer()
        self._tally.steers["sent"] += 1
        self._tally.markers.add(marker, MarkerPlace(outgoing.number, self.name))
        self.check.steers.add(marker, value, running, monotonic_ns())
        self._send(outgoing.steer(running.id, value))

    def _started(self, create: SentCreate, now: int) -> None:
        tally, timed = self._tally, self._outgoing.timed
        create.last = now
        if create.steer is not None:
            tally.successors += 1
        elif timed:
            tally.first_event.add(now - create.sent)
        for steer in self.check.steers.committed:
            tally.steers["committed"] += 1
            if timed and create.steer is not None:
                tally.steer_to_successor.add(now - steer.sent)
        create.steer_at = self._outgoing.steer_point(create.turn)
        self._queue.started(self)

    def _steered(self, event: ServerEvent, now: int) -> None:
        """Count a steer that is accepted, pending or failed."""
        steer, tally = self.check.steer, self._tally
        if steer is None:
            return
        steer.successor.last = now
        if steer.state is SteerState.FAILED:
            tally.steer_failures[error_code(event)] += 1
        else:
            tally.steers[steer.state] += 1
        if steer.state is SteerState.ACCEPTED and self._outgoing.timed:
            tally.steer_to_accepted.add(now - steer.sent)
        self._lanes[steer.lane].free_if_idle()

    def _ended(self, event: ServerEvent, now: int) -> None:
        response, tally = self.check.ended, self._tally
        assert response is not None
        create = response.create
        tally.statuses[response.status or ""] += 1
        if response.status == "failed":
            tally.errors[error_code(event)] += 1
        elif response.id:
            self.head = ChainHead(response.id, create.turn, create.steers)
        if self._outgoing.timed:
            tally.gap.add(now - create.last)
            if create.steer is None:
                tally.total.add(now - create.sent)
        for waiting in self.check.unanswered():
            waiting.sent = waiting.last = now  # it waited for its own lane, not for the gateway
        if self._outgoing.steers:
            self._check_markers(response, event)
        self.free_if_idle()

    def _check_markers(self, response: ResponseCheck, event: ServerEvent) -> None:
        """Check which steers a finished response repeats."""
        tally, outgoing = self._tally, self._outgoing
        tally.steers["cut"] += response.reason == "steered"
        self.check.faults += tally.markers.check(response, MarkerPlace(outgoing.number, self.name))
        response.forget()
        if response.status == "completed":
            outgoing.length = event.sequence_number

    def _refused(self, event: ServerEvent) -> None:
        tally, create = self._tally, self.check.refused
        tally.statuses["refused"] += 1
        tally.errors[error_code(event)] += 1
        if create is not None and self.head is not None and create.parent == self.head.id:
            self.head = None  # a failed continuation evicts its parent
        self._queue.free(self, after_error=True)
