"""One connection: its lanes, the creates they send and the events they get."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gateway.load.checks import MARKER, Owners
from gateway.load.events import error_code, read_event
from gateway.load.faults import Ask, Fault, Rule
from gateway.load.lane import Lane
from gateway.load.plan import Head, Plan, parent_for

if TYPE_CHECKING:
    from random import Random

    from gateway.load.client import Client
    from gateway.load.events import Event
    from gateway.load.tally import Tally
    from gateway.load.turns import Turns


class Caller:
    """The listener of one socket."""

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
