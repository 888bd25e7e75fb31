"""The check of one lane: which create an event answers, and whether it may come now. Pure.

Feed events, read `faults`. `feed` returns what an event meant for the lane, so that measuring needs
no second reading.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING

from gateway.tools.load.response_checks import CREATED, BrokenRule, ResponseCheck, Rule, SentCreate
from gateway.tools.load.steer_checks import STEER_EVENTS, LaneSteers, SentSteer, SentSteers

if TYPE_CHECKING:
    from gateway.tools.load.server_events import ResponseField, ServerEvent

_REMEMBERED = 4096
#: Events outside of a response's stream.
_OUTSIDE = frozenset({"error", *STEER_EVENTS})


class EventMeaning(Enum):
    """What an event meant for its lane."""

    WITHIN = auto()  # one more of the running response
    STARTED = auto()  # its first
    ENDED = auto()  # its terminal
    REFUSED = auto()  # an error event in its place
    STEERED = auto()  # a steer event
    STRAY = auto()  # answers nothing that was sent


class ResponseOwners:
    """The lane that had each response id first, for a connection's latest few thousand."""

    def __init__(self) -> None:
        self._lanes: dict[str, str] = {}

    def claim(self, response_id: str, lane: str) -> str | None:
        """Register a new response; return the lane that already has its id, if one has."""
        before = self._lanes.get(response_id)
        if before is None:
            self._lanes[response_id] = lane
            if len(self._lanes) > _REMEMBERED:
                del self._lanes[next(iter(self._lanes))]
        return before


class LaneCheck:
    """A lane's creates in the order they were sent, its steers, and the response running now.

    At most one create may wait behind a running response, and only once that has started, so that
    an error event is never ambiguous.

    Args:
        name: The lane's `stream_id`.
        owners: The lanes of the connection's response ids.
        steers: The connection's steers.
    """

    def __init__(self, name: str, owners: ResponseOwners, steers: SentSteers) -> None:
        self.name = name
        self.waiting: deque[SentCreate] = deque()
        self.running: ResponseCheck | None = None
        self.ended: ResponseCheck | None = None  # the latest that got its terminal
        self.refused: SentCreate | None = None  # the latest that got an error
        self.faults: list[BrokenRule] = []
        self.steers = LaneSteers(name, steers, self.faults)
        self.steer: SentSteer | None = None  # that of the latest steer event, if it was right
        self._owners = owners

    def add(self, create: SentCreate) -> None:
        """Expect an answer to a create that is being sent."""
        self.waiting.append(create)

    def feed(self, event: ServerEvent) -> EventMeaning:
        """Check one event of this lane; return what it meant."""
        running, kind = self.running, event.type
        if kind in _OUTSIDE:
            return self._outside(event)
        if running is None or kind == CREATED:
            return self._first(event)
        running.feed(event)
        return self._ended_or(running, EventMeaning.WITHIN)

    def unanswered(self) -> list[SentCreate]:
        """Return the creates without a full answer: running, then owed to steers, then waiting."""
        running = [self.running.create] if self.running else []
        return [*running, *(steer.successor for steer in self.steers.awaited), *self.waiting]

    def drop(self, message: str) -> None:
        """Give up on everything unanswered, with one fault each."""
        self.steers.drop(message)
        for create in self.unanswered():
            successor = create.steer is not None
            what = f"successor of {create.parent}" if successor else f"create {create.marker}"
            self._fault(Rule.UNANSWERED, f"{what}: {message}")
        self.running = None
        self.waiting.clear()

    def _outside(self, event: ServerEvent) -> EventMeaning:
        if event.type == "error":
            return self._error()
        self.steer = self.steers.feed(event)
        return EventMeaning.STEERED

    def _error(self) -> EventMeaning:
        if self.waiting:
            self.refused = self.waiting.popleft()
            return EventMeaning.REFUSED
        where = "inside a response" if self.running else "on an idle lane"
        self._fault(Rule.ORDER, f"an error event {where}")
        return EventMeaning.STRAY

    def _first(self, event: ServerEvent) -> EventMeaning:
        """Take an event that is, or should be, the first of the next response."""
        if self.ended is not None and event.type != CREATED and self.ended.names(event):
            self._fault(Rule.LATE, f"{event.type} after the terminal event of {self.ended.id}")
            return EventMeaning.STRAY
        create = self._answered(event)
        if create is None:
            return self._unasked(event)
        if self.running is not None:
            message = f"{self.running.id} got no terminal event before the next response.created"
            self._fault(Rule.UNANSWERED, message)
        self.running = ResponseCheck(create, self.faults)
        if event.response is not None and event.type == CREATED:
            self._check_owner(event.response, create)
        self.running.feed(event)
        return self._ended_or(self.running, EventMeaning.STARTED)

    def _answered(self, event: ServerEvent) -> SentCreate | None:
        """Return what the next response answers: a steer, or else the first create that waits."""
        created = event.response if event.type == CREATED else None
        first = self.waiting[0] if self.waiting else None
        create = self.steers.successor(created, first) if created else None
        if create is None and first is not None:
            create = self.waiting.popleft()
            self.steers.continued(create)
        return create

    def _ended_or(self, running: ResponseCheck, meaning: EventMeaning) -> EventMeaning:
        """Return ENDED after a terminal event, else `meaning`."""
        if running.status is None:
            return meaning
        self.steers.ended(running)
        self.running, self.ended = None, running
        return EventMeaning.ENDED

    def _unasked(self, event: ServerEvent) -> EventMeaning:
        if self.running is not None:
            self.running.feed(event)  # a second created: its own check reports it
            return EventMeaning.WITHIN
        self._fault(Rule.LATE, f"{event.type} on a lane that waits for nothing")
        return EventMeaning.STRAY

    def _check_owner(self, response: ResponseField, create: SentCreate) -> None:
        before = self._owners.claim(response.id, self.name)
        if before is not None:
            self._fault(Rule.LANE, f"{response.id} was already used on lane {before}")
        echoed = response.marker
        if echoed not in (None, create.marker):
            rule = Rule.FIFO if echoed in [other.marker for other in self.waiting] else Rule.LANE
            self._fault(rule, f"{response.id} answers create {echoed}, {create.marker} was next")

    def _fault(self, rule: Rule, message: str) -> None:
        self.faults.append(BrokenRule(rule, message))
