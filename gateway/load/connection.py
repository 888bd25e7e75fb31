"""One connection: its lanes, the creates they send, the events they get and how long they take."""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING

import msgspec

from gateway.load.checks import MARKER, LaneCheck, Owners, Step
from gateway.load.events import error_code, read_event
from gateway.load.plan import Head, Plan, parent_for
from gateway.load.response import Ask, Fault, Rule

if TYPE_CHECKING:
    from random import Random

    from gateway.load.client import Client
    from gateway.load.events import Event
    from gateway.load.tally import Tally
    from gateway.load.traffic import Turns


class Connection:
    """What one socket sends and reads."""

    client: Client  # set once, before the first create

    def __init__(self, number: int, plan: Plan, tally: Tally, turns: Turns, random: Random) -> None:
        self.number = number
        self.tally = tally
        self.turns = turns
        self.marker = f"{random.getrandbits(32):08x}"
        self.timed = number >= plan.slow_readers  # the first connections are the slow ones
        self.leaving = False
        self._plan = plan
        self._random = random
        owners = Owners()
        names = [f"lane-{index}" for index in range(plan.lanes)]
        self.lanes = {name: Lane(self, name, owners) for name in names}

    def choose(self, lane: Lane, own: Head | None) -> Head | None:
        """The parent of a lane's next create."""
        lanes = self.lanes.values()
        others = [other.head for other in lanes if other is not lane and other.head]
        return parent_for(self._random, self._plan.fork_share, own, others)

    def frame(self, lane: Lane, ask: Ask) -> bytes:
        """The `response.create` of an ask."""
        create = {
            "type": "response.create",
            "stream_id": lane.name,
            "input": self._plan.prompt(ask.marker, lane.name, ask.turn),
            "store": False,
            "metadata": {MARKER: ask.marker},
        }
        if self._plan.model:
            create["model"] = self._plan.model
        if ask.parent:
            create["previous_response_id"] = ask.parent
        return msgspec.json.encode(create)

    def receive(self, payload: bytes, now: int) -> None:
        """One message from the gateway."""
        tally = self.tally
        tally.events += 1
        tally.size += len(payload)
        try:
            event = read_event(payload)
        except msgspec.MsgspecError as error:
            tally.blame(Fault(Rule.SHAPE, str(error)), self.number, None, payload)
            return
        lane = self.lanes.get(event.stream_id or "")
        if lane is None:
            self._no_lane(event, payload)
            return
        if lane.over:
            return
        lane.receive(event, now)
        if lane.check.faults:
            self._blame(lane, payload)

    def lost(self, reason: str) -> None:
        """The socket is gone: whatever was unanswered stays so."""
        self.tally.open -= 1
        if self.leaving:
            return
        self.tally.errors[reason] += 1
        for lane in self.lanes.values():
            self.give_up(lane, reason)

    def give_up(self, lane: Lane, reason: str) -> None:
        """Wait no longer for a lane."""
        lane.over = True
        lane.check.drop(reason)
        self._blame(lane, b"")
        self.turns.free(lane)

    def _no_lane(self, event: Event, payload: bytes) -> None:
        if event.type == "error" and event.stream_id is None:
            self.tally.errors[error_code(event)] += 1  # about the connection as a whole
            return
        fault = Fault(
            Rule.LANE, f"{event.type} with stream_id {event.stream_id!r}, not one of ours"
        )
        self.tally.blame(fault, self.number, event.stream_id, payload)

    def _blame(self, lane: Lane, payload: bytes) -> None:
        for fault in lane.check.faults:
            self.tally.blame(fault, self.number, lane.name, payload)
        lane.check.faults.clear()


class Lane:
    """What a lane has sent, what it can continue from, and the check of its events."""

    def __init__(self, connection: Connection, name: str, owners: Owners) -> None:
        self.connection = connection
        self.name = name
        self.check = LaneCheck(name, owners)
        self.head: Head | None = None
        self.sent = 0
        self.queued = False  # in line for its next create
        self.over = False  # given up: whatever still comes is not looked at

    def send(self) -> None:
        """Send the next create."""
        connection, running = self.connection, self.check.running
        own = Head(running.id or "", running.ask.turn) if running else self.head
        parent = connection.choose(self, own)
        marker = f"{connection.marker}.{self.name}.{self.sent}"
        ask = Ask(marker, parent and parent.id, parent.turn + 1 if parent else 1)
        self.sent += 1
        ask.sent = ask.last = monotonic_ns()
        self.check.ask(ask)
        connection.tally.started += 1
        connection.tally.forks += parent is not None and parent != own
        connection.client.send(connection.frame(self, ask))

    def receive(self, event: Event, now: int) -> None:
        """Check one event and count it."""
        check = self.check
        step = check.feed(event)
        if step is Step.WITHIN and check.running is not None:
            self._within(check.running.ask, event, now)
        elif step is Step.STARTED and check.running is not None:
            ask = check.running.ask
            ask.last = now
            if self.connection.timed:
                self.connection.tally.first_event.add(now - ask.sent)
            self.connection.turns.started(self)
        elif step is Step.ENDED:
            self._ended(event, now)
        elif step is Step.REFUSED:
            self._refused(event)

    def _within(self, ask: Ask, event: Event, now: int) -> None:
        if self.connection.timed:
            tally = self.connection.tally
            tally.gap.add(now - ask.last)
            if not ask.spoke and event.delta is not None:
                ask.spoke = True
                tally.first_delta.add(now - ask.sent)
        ask.last = now

    def _ended(self, event: Event, now: int) -> None:
        response, tally = self.check.ended, self.connection.tally
        assert response is not None
        tally.statuses[response.status or ""] += 1
        if response.status == "failed":
            tally.errors[error_code(event)] += 1
        elif response.id:
            self.head = Head(response.id, response.ask.turn)
        if self.connection.timed:
            tally.gap.add(now - response.ask.last)
            tally.total.add(now - response.ask.sent)
        for ask in self.check.waiting:
            ask.sent = ask.last = now  # it waited for its own lane, not for the gateway
        self.connection.turns.free(self)

    def _refused(self, event: Event) -> None:
        tally, ask = self.connection.tally, self.check.refused
        tally.statuses["refused"] += 1
        tally.errors[error_code(event)] += 1
        if ask is not None and self.head is not None and ask.parent == self.head.id:
            self.head = None  # a failed continuation evicts its parent
        self.connection.turns.free(self, after_error=True)
