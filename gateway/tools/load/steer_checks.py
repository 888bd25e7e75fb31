"""The steers of a connection, each followed from its frame to its one verdict. Pure.

A response is steered once at most, so its id names its steer: nothing else could tell which steer
an `accepted` speaks of.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from gateway.tools.load.response_checks import BrokenRule, Rule, SentCreate

if TYPE_CHECKING:
    from gateway.tools.load.events import ResponseField, ServerEvent, SteerField
    from gateway.tools.load.response_checks import ResponseCheck

_REMEMBERED = 1024


class Fate(StrEnum):
    """What is known of a steer."""

    SENT = "sent"
    ACCEPTED = "accepted"
    PENDING = "pending"
    COMMITTED = "committed"
    FAILED = "failed"
    LOST = "lost"  # waited for no longer


_OPEN = (Fate.SENT, Fate.ACCEPTED, Fate.PENDING)
_AWAITED = (Fate.SENT, Fate.ACCEPTED)

#: A steer event -> what it makes of a steer, and what that may have been before.
STEER_EVENTS = {
    "response.steer.accepted": (Fate.ACCEPTED, (Fate.SENT,)),
    "response.steer.pending": (Fate.PENDING, (Fate.ACCEPTED,)),
    "response.steer.failed": (Fate.FAILED, _OPEN),
}


@dataclass(slots=True, eq=False)
class SentSteer:
    """One steer of the response `target`; `follow` is what its successor has to answer."""

    marker: str
    input: Any = field(repr=False)
    lane: str
    target: ResponseCheck = field(repr=False)
    follow: SentCreate = field(repr=False)
    sent: int = 0
    fate: Fate = Fate.SENT
    id: str | None = None


class SentSteers:
    """A connection's latest thousand, by the response that each is for."""

    def __init__(self) -> None:
        self._steers: dict[str, SentSteer] = {}
        self._ids: dict[str, None] = {}

    def add(self, steer: SentSteer) -> None:
        """It was sent."""
        self._steers[steer.target.id or ""] = steer
        if len(self._steers) > _REMEMBERED:
            del self._steers[next(iter(self._steers))]

    def find(self, target: str | None) -> SentSteer | None:
        """The steer of that response."""
        return self._steers.get(target or "")

    def claim(self, steer_id: str | None) -> bool:
        """Note an id; False if it is none, or another steer's."""
        if not steer_id or steer_id in self._ids:
            return False
        self._ids[steer_id] = None
        if len(self._ids) > _REMEMBERED:
            del self._ids[next(iter(self._ids))]
        return True


class LaneSteers:
    """Those of one lane, checked; what was wrong lands in `faults`."""

    def __init__(self, lane: str, steers: SentSteers, faults: list[BrokenRule]) -> None:
        self.committed: list[SentSteer] = []  # by the latest response that began
        self._lane = lane
        self._steers = steers
        self._faults = faults
        self._open: list[SentSteer] = []

    @property
    def awaited(self) -> list[SentSteer]:
        """Those that the gateway owes something soon: an answer, a successor, a word to wait."""
        self._open = [steer for steer in self._open if steer.fate in _OPEN]
        return [steer for steer in self._open if steer.fate in _AWAITED]

    def send(self, marker: str, value: Any, target: ResponseCheck, now: int) -> SentSteer:
        """A steer of the running response was sent."""
        ask, steers = target.ask, target.ask.steers | {marker}
        follow = SentCreate(
            ask.marker, target.id, ask.turn + 1, last=now, steers=steers, steer=marker
        )
        steer = SentSteer(marker, value, self._lane, target, follow, now)
        self._steers.add(steer)
        self._open.append(steer)
        return steer

    def feed(self, event: ServerEvent) -> SentSteer | None:
        """Check a steer event; returns the steer it is about if that was taken a step further."""
        told = event.steer
        steer = self._steers.find(told.previous_response_id) if told else None
        if told is None or steer is None:
            self._fault(Rule.STEER, f"{event.type} for a response that was not steered")
            return None
        if steer.lane == self._lane:
            steer.target.count(event)
        else:
            self._fault(Rule.LANE, f"{event.type} for a response of lane {steer.lane}")
        fate, before = STEER_EVENTS[event.type]
        if steer.fate not in before:
            self._fault(Rule.STEER, f"{event.type} for steer {steer.marker}, {steer.fate} before")
            return None
        self._check(steer, fate, told)
        steer.fate = fate
        return steer

    def successor(self, created: ResponseField, waiting: SentCreate | None) -> SentCreate | None:
        """What a `response.created` answers if a steer made it; None if it is a create's answer."""
        self.committed = []
        steer = self._steers.find(created.previous_response_id)
        if steer is None or not self._made(steer, created, waiting):
            self._overtaken(created)
            return None
        if steer.lane != self._lane:
            message = f"{created.id} follows {steer.target.id} of lane {steer.lane}"
            self._fault(Rule.LANE, message)
            return replace(steer.follow)
        if steer.fate is not Fate.ACCEPTED:
            message = f"{created.id} follows {steer.target.id}, its steer was {steer.fate} before"
            self._fault(Rule.STEER, message)
        elif steer.target.status == "failed":
            self._fault(Rule.STEER, f"{created.id} follows {steer.target.id}, which failed")
        if steer.fate not in _OPEN:
            return replace(steer.follow)
        steer.fate, self.committed = Fate.COMMITTED, [steer]
        return steer.follow

    def continued(self, ask: SentCreate) -> None:
        """A create was answered: it commits those steers of its parent that waited for it."""
        self.committed = [one for one in self._open if one.target.id == ask.parent and _waits(one)]
        for steer in self.committed:
            steer.fate = Fate.COMMITTED
            ask.steers |= {steer.marker}

    def ended(self, target: ResponseCheck) -> None:
        """A terminal event came: nothing stops for a steer that was not accepted."""
        if target.reason == "steered":
            steer = self._steers.find(target.id)
            if steer is None or steer.fate is not Fate.ACCEPTED:
                self._fault(Rule.STEER, f"{target.id} was steered, but no steer was accepted")
            if target.owes:
                self._fault(Rule.STEER, f"{target.id} was steered, but it had called for a tool")

    def drop(self, message: str) -> None:
        """Wait for nothing any more: one fault for each that is owed something."""
        for steer in self.awaited:
            owed = "answered" if steer.fate is Fate.SENT else "committed or failed"
            words = f"steer {steer.marker} of {steer.target.id} was never {owed}: {message}"
            self._fault(Rule.STEER, words)
            steer.fate = Fate.LOST

    def release(self) -> None:
        """The connection's end is a verdict too."""
        self._open.clear()

    def _check(self, steer: SentSteer, fate: Fate, told: SteerField) -> None:
        if fate is Fate.ACCEPTED:
            steer.id = told.id
            if not self._steers.claim(told.id):
                self._fault(Rule.STEER, f"steer {steer.marker} got the id {told.id}")
        elif steer.id not in (None, told.id):
            self._fault(Rule.STEER, f"{fate} as {told.id}, accepted as {steer.id}")
        if fate is Fate.FAILED and told.input != steer.input:
            self._fault(Rule.STEER, f"steer {steer.marker} failed with another input")
        if fate is Fate.PENDING and steer.target.status is None:
            self._fault(Rule.STEER, f"pending before the terminal event of {steer.target.id}")

    def _made(self, steer: SentSteer, created: ResponseField, waiting: SentCreate | None) -> bool:
        """Whether the steer, and not the create that waits, brought this response about."""
        if waiting is None or waiting.parent != steer.target.id:
            return True
        marker = created.marker
        if marker is None:
            owed = steer.fate is Fate.ACCEPTED and not steer.target.owes
            return owed and steer.lane == self._lane
        return marker == steer.follow.marker

    def _overtaken(self, created: ResponseField) -> None:
        """Another response began: no successor may be owed."""
        for steer in self.awaited:
            target = steer.target
            if steer.fate is Fate.ACCEPTED and target.status and not _waits(steer):
                message = f"{created.id} began before the successor of {target.id}"
                self._fault(Rule.STEER, message)
                steer.fate = Fate.LOST

    def _fault(self, rule: Rule, message: str) -> None:
        self._faults.append(BrokenRule(rule, message))


def _waits(steer: SentSteer) -> bool:
    """Whether it is the client's next create that commits it."""
    return steer.fate is Fate.PENDING or (steer.fate is Fate.ACCEPTED and steer.target.owes)
