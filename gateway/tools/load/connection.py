"""One connection: its lanes, the frames they send, and whose each event is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from gateway.tools.load.events import MARKER, error_code, read_event
from gateway.tools.load.lane import LoadLane
from gateway.tools.load.lane_checks import ResponseOwners
from gateway.tools.load.markers import steer_marker
from gateway.tools.load.plan import ChainHead, LoadPlan, parent_for, steer_input, steer_point
from gateway.tools.load.response_checks import BrokenRule, Rule
from gateway.tools.load.steer_checks import SentSteers

if TYPE_CHECKING:
    from random import Random

    from gateway.tools.load.client import LoadClient
    from gateway.tools.load.events import ServerEvent
    from gateway.tools.load.response_checks import SentCreate
    from gateway.tools.load.tally import Tally
    from gateway.tools.load.traffic import SendQueue


#: The last number of an answer, until one has come.
_LENGTH = 16


class LoadConnection:
    """What one socket sends and reads."""

    client: LoadClient  # set once, before the first create

    def __init__(
        self, number: int, plan: LoadPlan, tally: Tally, turns: SendQueue, random: Random
    ) -> None:
        self.number = number
        self.tally = tally
        self.turns = turns
        self.marker = f"{random.getrandbits(32):08x}"
        self.timed = number >= plan.slow_readers  # the first connections are the slow ones
        self.leaving = False
        self.steers = plan.steer_share > 0
        self.length = _LENGTH
        self._plan = plan
        self._random = random
        self._steered = 0
        owners, steers = ResponseOwners(), SentSteers()
        names = [f"lane-{index}" for index in range(plan.lanes)]
        self.lanes = {name: LoadLane(self, name, owners, steers) for name in names}

    def choose(self, lane: LoadLane, own: ChainHead | None) -> ChainHead | None:
        """The parent of a lane's next create."""
        lanes = self.lanes.values()
        others = [other.head for other in lanes if other is not lane and other.head]
        return parent_for(self._random, self._plan.fork_share, own, others)

    def steer_point(self, turn: int) -> int | None:
        """Where to steer a response that begins, if it is to be steered."""
        if not self.steers:
            return None
        return steer_point(self._random, self._plan.steer_share, turn, self.length)

    def next_steer(self) -> tuple[str, Any]:
        """The marker and the input of a new steer."""
        self._steered += 1
        marker = steer_marker(self.marker, self._steered)
        return marker, steer_input(marker, as_list=self._steered % 2 == 0)

    def steer_frame(self, target: str | None, value: Any) -> bytes:
        """The `response.steer` for a response."""
        steer = {"type": "response.steer", "previous_response_id": target, "input": value}
        return msgspec.json.encode(steer)

    def frame(self, lane: LoadLane, ask: SentCreate) -> bytes:
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
            tally.blame(BrokenRule(Rule.SHAPE, str(error)), self.number, None, payload)
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
            lane.check.steers.release()
            self.give_up(lane, reason)

    def give_up(self, lane: LoadLane, reason: str) -> None:
        """Wait no longer for a lane."""
        lane.over = True
        lane.check.drop(reason)
        self._blame(lane, b"")
        self.turns.free(lane)

    def _no_lane(self, event: ServerEvent, payload: bytes) -> None:
        if event.type == "error" and event.stream_id is None:
            self.tally.errors[error_code(event)] += 1  # about the connection as a whole
            return
        fault = BrokenRule(
            Rule.LANE, f"{event.type} with stream_id {event.stream_id!r}, not one of ours"
        )
        self.tally.blame(fault, self.number, event.stream_id, payload)

    def _blame(self, lane: LoadLane, payload: bytes) -> None:
        for fault in lane.check.faults:
            self.tally.blame(fault, self.number, lane.name, payload)
        lane.check.faults.clear()
