"""One connection of a load run: its lanes, and the lane that each event belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gateway.tools.load.client_events import ClientEvents
from gateway.tools.load.lane import LoadLane
from gateway.tools.load.lane_checks import ResponseOwners
from gateway.tools.load.response_checks import BrokenRule, Rule
from gateway.tools.load.server_events import error_code, read_event
from gateway.tools.load.steer_checks import SentSteers

if TYPE_CHECKING:
    from random import Random

    from gateway.tools.load.client import LoadClient
    from gateway.tools.load.plan import LoadPlan
    from gateway.tools.load.send_queue import SendQueue
    from gateway.tools.load.server_events import ServerEvent
    from gateway.tools.load.tally import Tally


class LoadConnection:
    """One socket's lanes. Implements `client.Receiver`.

    Args:
        number: The connection's number, from 0.
        plan: The settings of the run.
        tally: Where everything is counted.
        queue: Decides which lane sends.
        random: The connection's own randomness.
    """

    client: LoadClient  # set once, before the first create

    def __init__(
        self, number: int, plan: LoadPlan, tally: Tally, queue: SendQueue, random: Random
    ) -> None:
        self.number = number
        self.leaving = False
        self._tally = tally
        self._queue = queue
        self._timeout = plan.timeout
        owners, steers = ResponseOwners(), SentSteers()
        outgoing = ClientEvents(number, plan, random)
        self.lanes: dict[str, LoadLane] = {}
        for name in (f"lane-{index}" for index in range(plan.lanes)):
            self.lanes[name] = LoadLane(
                name,
                outgoing,
                self._send,
                tally=tally,
                queue=queue,
                lanes=self.lanes,
                owners=owners,
                steers=steers,
            )

    def receive(self, payload: bytes, now: int) -> None:
        """Count and check one message from the gateway (see `client.Receiver`)."""
        tally = self._tally
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
        """Give up on every lane: the socket is gone (see `client.Receiver`)."""
        self._tally.open -= 1
        if self.leaving:
            return
        self._tally.errors[reason] += 1
        for lane in self.lanes.values():
            lane.check.steers.release()
            self._give_up(lane, reason)

    def give_up_silent(self, now: int) -> None:
        """Give up on every lane that has waited for an event longer than the plan's timeout.

        `now` is in nanoseconds of the monotonic clock.
        """
        for lane in self.lanes.values():
            if lane in self._queue.active:
                unanswered = lane.check.unanswered()
                if unanswered and now - unanswered[0].last > self._timeout * 1e9:
                    self._give_up(lane, f"no event for {self._timeout:g} s")

    def _give_up(self, lane: LoadLane, reason: str) -> None:
        lane.over = True
        lane.check.drop(reason)
        self._blame(lane, b"")
        self._queue.free(lane)

    def _send(self, payload: bytes) -> None:
        self.client.send(payload)

    def _no_lane(self, event: ServerEvent, payload: bytes) -> None:
        if event.type == "error" and event.stream_id is None:
            self._tally.errors[error_code(event)] += 1  # about the connection as a whole
            return
        fault = BrokenRule(
            Rule.LANE, f"{event.type} with stream_id {event.stream_id!r}, not one of ours"
        )
        self._tally.blame(fault, self.number, event.stream_id, payload)

    def _blame(self, lane: LoadLane, payload: bytes) -> None:
        for fault in lane.check.faults:
            self._tally.blame(fault, self.number, lane.name, payload)
        lane.check.faults.clear()
