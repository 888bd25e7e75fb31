"""One lane of a connection: what it sends, and what its events mean for the counters."""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING

from gateway.tools.load.events import error_code
from gateway.tools.load.lane_checks import EventMeaning, LaneCheck, ResponseOwners
from gateway.tools.load.markers import MarkerPlace
from gateway.tools.load.plan import ChainHead
from gateway.tools.load.response_checks import SentCreate
from gateway.tools.load.steer_checks import Fate, SentSteers

if TYPE_CHECKING:
    from gateway.tools.load.connection import LoadConnection
    from gateway.tools.load.events import ServerEvent
    from gateway.tools.load.response_checks import ResponseCheck

_TEXT_DELTA = "response.output_text.delta"


class LoadLane:
    """What a lane has sent, what it can continue from, and the check of its events."""

    def __init__(
        self, connection: LoadConnection, name: str, owners: ResponseOwners, steers: SentSteers
    ) -> None:
        self.connection = connection
        self.name = name
        self.check = LaneCheck(name, owners, steers)
        self.head: ChainHead | None = None
        self.sent = 0
        self.queued = False  # in line for its next create
        self.over = False  # given up: whatever still comes is not looked at

    def send(self) -> None:
        """Send the next create."""
        connection, running = self.connection, self.check.running
        ask = running.ask if running else None
        own = ChainHead(running.id or "", ask.turn, ask.steers) if running and ask else self.head
        parent = connection.choose(self, own)
        marker = f"{connection.marker}.{self.name}.{self.sent}"
        ask = SentCreate(marker)
        if parent:
            ask = SentCreate(marker, parent.id, parent.turn + 1, steers=parent.steers)
        self.sent += 1
        ask.sent = ask.last = monotonic_ns()
        self.check.ask(ask)
        connection.tally.started += 1
        connection.tally.forks += parent is not None and parent != own
        connection.client.send(connection.frame(self, ask))

    def receive(self, event: ServerEvent, now: int) -> None:
        """Check one event and count it."""
        check = self.check
        step = check.feed(event)
        if step is EventMeaning.WITHIN and check.running is not None:
            self._within(check.running.ask, event, now)
        elif step is EventMeaning.STARTED and check.running is not None:
            self._started(check.running.ask, now)
        elif step is EventMeaning.ENDED:
            self._ended(event, now)
        elif step is EventMeaning.REFUSED:
            self._refused(event)
        elif step is EventMeaning.STEERED:
            self._steered(event, now)

    def _within(self, ask: SentCreate, event: ServerEvent, now: int) -> None:
        if self.connection.timed:
            self.connection.tally.gap.add(now - ask.last)
        if ask.listens and event.delta is not None:
            self._listen(ask, event, now)
        ask.last = now

    def _listen(self, ask: SentCreate, event: ServerEvent, now: int) -> None:
        """A delta that may be the first one, or the one to steer at."""
        connection = self.connection
        if not ask.spoke:
            ask.spoke = True
            if connection.timed and ask.steer is None:
                connection.tally.first_delta.add(now - ask.sent)
        if ask.steer_at is None:
            ask.listens = False
        elif event.sequence_number >= ask.steer_at and event.type == _TEXT_DELTA:
            ask.listens = False
            self._steer()

    def _steer(self) -> None:
        """Steer the running response."""
        connection, running = self.connection, self.check.running
        assert running is not None
        marker, value = connection.next_steer()
        connection.tally.steers["sent"] += 1
        connection.tally.echoes.sent(marker, MarkerPlace(connection.number, self.name))
        self.check.steers.send(marker, value, running, monotonic_ns())
        connection.client.send(connection.steer_frame(running.id, value))

    def _started(self, ask: SentCreate, now: int) -> None:
        connection, tally = self.connection, self.connection.tally
        ask.last = now
        if ask.steer is not None:
            tally.successors += 1
        elif connection.timed:
            tally.first_event.add(now - ask.sent)
        for steer in self.check.steers.committed:
            tally.steers["committed"] += 1
            if connection.timed and ask.steer is not None:
                tally.steer_to_successor.add(now - steer.sent)
        ask.steer_at = connection.steer_point(ask.turn)
        connection.turns.started(self)

    def _steered(self, event: ServerEvent, now: int) -> None:
        """A steer is accepted, pending or failed."""
        steer, tally = self.check.steer, self.connection.tally
        if steer is None:
            return
        steer.follow.last = now
        if steer.fate is Fate.FAILED:
            tally.steer_failures[error_code(event)] += 1
        else:
            tally.steers[steer.fate] += 1
        if steer.fate is Fate.ACCEPTED and self.connection.timed:
            tally.steer_to_accepted.add(now - steer.sent)
        self.connection.lanes[steer.lane].settle()

    def settle(self) -> None:
        """Take another turn, unless a response runs or a steer has no verdict yet."""
        if self.check.running is None and not self.check.steers.awaited:
            self.connection.turns.free(self)

    def _ended(self, event: ServerEvent, now: int) -> None:
        response, tally = self.check.ended, self.connection.tally
        assert response is not None
        tally.statuses[response.status or ""] += 1
        if response.status == "failed":
            tally.errors[error_code(event)] += 1
        elif response.id:
            self.head = ChainHead(response.id, response.ask.turn, response.ask.steers)
        if self.connection.timed:
            tally.gap.add(now - response.ask.last)
            if response.ask.steer is None:
                tally.total.add(now - response.ask.sent)
        for ask in self.check.unanswered():
            ask.sent = ask.last = now  # it waited for its own lane, not for the gateway
        if self.connection.steers:
            self._hear(response, event)
        self.settle()

    def _hear(self, response: ResponseCheck, event: ServerEvent) -> None:
        """What a finished response tells of steers."""
        tally = self.connection.tally
        place = MarkerPlace(self.connection.number, self.name)
        tally.steers["cut"] += response.reason == "steered"
        self.check.faults += tally.echoes.hear(response, place)
        response.forget()
        if response.status == "completed":
            self.connection.length = event.sequence_number

    def _refused(self, event: ServerEvent) -> None:
        tally, ask = self.connection.tally, self.check.refused
        tally.statuses["refused"] += 1
        tally.errors[error_code(event)] += 1
        if ask is not None and self.head is not None and ask.parent == self.head.id:
            self.head = None  # a failed continuation evicts its parent
        self.connection.turns.free(self, after_error=True)
