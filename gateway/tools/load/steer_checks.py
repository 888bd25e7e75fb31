"""The check of a connection's steers, each from its frame to its one verdict. Pure.

A response is steered at most once, so its id names its steer: nothing else says which steer an
`accepted` is about.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from gateway.tools.load.response_checks import BrokenRule, Rule, SentCreate

if TYPE_CHECKING:
    from gateway.tools.load.response_checks import ResponseCheck
    from gateway.tools.load.server_events import ResponseField, ServerEvent, SteerField

_REMEMBERED = 1024


class SteerState(StrEnum):
    """How far a steer has come."""

    SENT = "sent"
    ACCEPTED = "accepted"
    PENDING = "pending"
    COMMITTED = "committed"
    FAILED = "failed"
    LOST = "lost"  # no longer awaited


_OPEN = (SteerState.SENT, SteerState.ACCEPTED, SteerState.PENDING)
_AWAITED = (SteerState.SENT, SteerState.ACCEPTED)

#: Steer event -> the state that it leads to, and those in which it may come.
STEER_EVENTS = {
    "response.steer.accepted": (SteerState.ACCEPTED, (SteerState.SENT,)),
    "response.steer.pending": (SteerState.PENDING, (SteerState.ACCEPTED,)),
    "response.steer.failed": (SteerState.FAILED, _OPEN),
}


@dataclass(slots=True, eq=False)
class SentSteer:
    """One steer of the response `target`; `successor` is the create that its successor answers."""

    marker: str
    input: Any = field(repr=False)
    lane: str
    target: ResponseCheck = field(repr=False)
    successor: SentCreate = field(repr=False)
    sent: int = 0
    state: SteerState = SteerState.SENT
    id: str | None = None


class SentSteers:
    """A connection's latest thousand steers, by the id of the response that each is for."""

    def __init__(self) -> None:
        self._steers: dict[str, SentSteer] = {}
        self._ids: dict[str, None] = {}

    def add(self, steer: SentSteer) -> None:
        """Remember a steer that is being sent."""
        self._steers[steer.target.id or ""] = steer
        if len(self._steers) > _REMEMBERED:
            del self._steers[next(iter(self._steers))]

    def find(self, target: str | None) -> SentSteer | None:
        """Return the steer of that response, if it has one."""
        return self._steers.get(target or "")

    def claim(self, steer_id: str | None) -> bool:
        """Register a steer's id; return False if it is missing or another steer has it."""
        if not steer_id or steer_id in self._ids:
            return False
        self._ids[steer_id] = None
        if len(self._ids) > _REMEMBERED:
            del self._ids[next(iter(self._ids))]
        return True


class LaneSteers:
    """Checks the steers of one lane and adds what is wrong to `faults`.

    Args:
        lane: The lane's `stream_id`.
        steers: The connection's steers.
        faults: The lane's list of faults.
    """

    def __init__(self, lane: str, steers: SentSteers, faults: list[BrokenRule]) -> None:
        self.committed: list[SentSteer] = []  # by the latest response that started
        self._lane = lane
        self._steers = steers
        self._faults = faults
        self._open: list[SentSteer] = []

    @property
    def awaited(self) -> list[SentSteer]:
        """Steers for which the gateway owes an event soon: a verdict, a successor, `pending`."""
        self._open = [steer for steer in self._open if steer.state in _OPEN]
        return [steer for steer in self._open if steer.state in _AWAITED]

    def add(self, marker: str, value: Any, target: ResponseCheck, now: int) -> SentSteer:
        """Expect a verdict on a steer that is being sent.

        Args:
            marker: The steer's marker.
            value: Its input.
            target: The running response that it steers.
            now: The time in nanoseconds.
        """
        create, steers = target.create, target.create.steers | {marker}
        successor = SentCreate(
            create.marker, target.id, create.turn + 1, last=now, steers=steers, steer=marker
        )
        steer = SentSteer(marker, value, self._lane, target, successor, now)
        self._steers.add(steer)
        self._open.append(steer)
        return steer

    def feed(self, event: ServerEvent) -> SentSteer | None:
        """Check a steer event; return the steer it is about if that has changed its state."""
        about = event.steer
        steer = self._steers.find(about.previous_response_id) if about else None
        if about is None or steer is None:
            self._fault(Rule.STEER, f"{event.type} for a response that was not steered")
            return None
        if steer.lane == self._lane:
            steer.target.count(event)
        else:
            self._fault(Rule.LANE, f"{event.type} for a response of lane {steer.lane}")
        state, before = STEER_EVENTS[event.type]
        if steer.state not in before:
            self._fault(Rule.STEER, f"{event.type} for steer {steer.marker}, {steer.state} before")
            return None
        self._check(steer, state, about)
        steer.state = state
        return steer

    def successor(self, created: ResponseField, waiting: SentCreate | None) -> SentCreate | None:
        """Return what a `response.created` answers if a steer made it, else None."""
        self.committed = []
        steer = self._steers.find(created.previous_response_id)
        if steer is None or not self._made(steer, created, waiting):
            self._overtaken(created)
            return None
        if steer.lane != self._lane:
            message = f"{created.id} follows {steer.target.id} of lane {steer.lane}"
            self._fault(Rule.LANE, message)
            return replace(steer.successor)
        if steer.state is not SteerState.ACCEPTED:
            message = f"{created.id} follows {steer.target.id}, its steer was {steer.state} before"
            self._fault(Rule.STEER, message)
        elif steer.target.status == "failed":
            self._fault(Rule.STEER, f"{created.id} follows {steer.target.id}, which failed")
        if steer.state not in _OPEN:
            return replace(steer.successor)
        steer.state, self.committed = SteerState.COMMITTED, [steer]
        return steer.successor

    def continued(self, create: SentCreate) -> None:
        """Commit the steers of a create's parent that waited for this create, now answered."""
        parent = create.parent
        self.committed = [one for one in self._open if one.target.id == parent and _waits(one)]
        for steer in self.committed:
            steer.state = SteerState.COMMITTED
            create.steers |= {steer.marker}

    def ended(self, target: ResponseCheck) -> None:
        """Check a terminal event: no response stops for a steer that was not accepted."""
        if target.reason == "steered":
            steer = self._steers.find(target.id)
            if steer is None or steer.state is not SteerState.ACCEPTED:
                self._fault(Rule.STEER, f"{target.id} was steered, but no steer was accepted")
            if target.needs_output:
                self._fault(Rule.STEER, f"{target.id} was steered, but it had called for a tool")

    def drop(self, message: str) -> None:
        """Stop waiting, with one fault for each steer that is owed an event."""
        for steer in self.awaited:
            owed = "answered" if steer.state is SteerState.SENT else "committed or failed"
            text = f"steer {steer.marker} of {steer.target.id} was never {owed}: {message}"
            self._fault(Rule.STEER, text)
            steer.state = SteerState.LOST

    def release(self) -> None:
        """Await no verdict any more, as the connection's end is one too."""
        self._open.clear()

    def _check(self, steer: SentSteer, state: SteerState, about: SteerField) -> None:
        if state is SteerState.ACCEPTED:
            steer.id = about.id
            if not self._steers.claim(about.id):
                self._fault(Rule.STEER, f"steer {steer.marker} got the id {about.id}")
        elif steer.id not in (None, about.id):
            self._fault(Rule.STEER, f"{state} as {about.id}, accepted as {steer.id}")
        if state is SteerState.FAILED and about.input != steer.input:
            self._fault(Rule.STEER, f"steer {steer.marker} failed with another input")
        if state is SteerState.PENDING and steer.target.status is None:
            self._fault(Rule.STEER, f"pending before the terminal event of {steer.target.id}")

    def _made(self, steer: SentSteer, created: ResponseField, waiting: SentCreate | None) -> bool:
        """Return whether the steer, not the waiting create, caused this response."""
        if waiting is None or waiting.parent != steer.target.id:
            return True
        marker = created.marker
        if marker is None:
            owed = steer.state is SteerState.ACCEPTED and not steer.target.needs_output
            return owed and steer.lane == self._lane
        return marker == steer.successor.marker

    def _overtaken(self, created: ResponseField) -> None:
        """Check that another response does not begin before an owed successor."""
        for steer in self.awaited:
            target = steer.target
            if steer.state is SteerState.ACCEPTED and target.status and not _waits(steer):
                message = f"{created.id} began before the successor of {target.id}"
                self._fault(Rule.STEER, message)
                steer.state = SteerState.LOST

    def _fault(self, rule: Rule, message: str) -> None:
        self._faults.append(BrokenRule(rule, message))


def _waits(steer: SentSteer) -> bool:
    """Return whether the client's next create commits this steer."""
    return steer.state is SteerState.PENDING or (
        steer.state is SteerState.ACCEPTED and steer.target.needs_output
    )
