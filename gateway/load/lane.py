"""One lane of a connection: sends its creates one after another and times the answers."""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING

from gateway.load.checks import LaneCheck, Owners, Step
from gateway.load.events import error_code
from gateway.load.faults import Ask
from gateway.load.plan import Head

if TYPE_CHECKING:
    from gateway.load.caller import Caller
    from gateway.load.events import Event


class Lane:
    """What a lane has sent, what it can continue from, and the check of its events."""

    def __init__(self, caller: Caller, name: str, owners: Owners) -> None:
        self.caller = caller
        self.name = name
        self.check = LaneCheck(name, owners)
        self.head: Head | None = None
        self.sent = 0
        self.queued = False  # in line for its next create
        self.over = False  # given up: whatever still comes is not looked at

    def send(self) -> None:
        """Send the next create."""
        caller, running = self.caller, self.check.running
        own = Head(running.id or "", running.ask.turn) if running else self.head
        parent = caller.choose(self, own)
        marker = f"{caller.marker}.{self.name}.{self.sent}"
        ask = Ask(marker, parent and parent.id, parent.turn + 1 if parent else 1)
        self.sent += 1
        ask.sent = ask.last = monotonic_ns()
        self.check.ask(ask)
        caller.tally.started += 1
        caller.tally.forks += parent is not None and parent != own
        caller.client.send(caller.frame(self, ask))

    def receive(self, event: Event, now: int) -> None:
        """Check one event and count it."""
        check = self.check
        step = check.feed(event)
        if step is Step.WITHIN and check.running is not None:
            self._within(check.running.ask, event, now)
        elif step is Step.STARTED and check.running is not None:
            ask = check.running.ask
            ask.last = now
            if self.caller.timed:
                self.caller.tally.first_event.add(now - ask.sent)
            self.caller.turns.started(self)
        elif step is Step.ENDED:
            self._ended(event, now)
        elif step is Step.REFUSED:
            self._refused(event)

    def _within(self, ask: Ask, event: Event, now: int) -> None:
        if self.caller.timed:
            tally = self.caller.tally
            tally.gap.add(now - ask.last)
            if not ask.spoke and event.delta is not None:
                ask.spoke = True
                tally.first_delta.add(now - ask.sent)
        ask.last = now

    def _ended(self, event: Event, now: int) -> None:
        response, tally = self.check.ended, self.caller.tally
        assert response is not None
        tally.statuses[response.status or ""] += 1
        if response.status == "failed":
            tally.errors[error_code(event)] += 1
        elif response.id:
            self.head = Head(response.id, response.ask.turn)
        if self.caller.timed:
            tally.gap.add(now - response.ask.last)
            tally.total.add(now - response.ask.sent)
        for ask in self.check.waiting:
            ask.sent = ask.last = now  # it waited for its own lane, not for the gateway
        self.caller.turns.free(self)

    def _refused(self, event: Event) -> None:
        tally, ask = self.caller.tally, self.check.refused
        tally.statuses["refused"] += 1
        tally.errors[error_code(event)] += 1
        if ask is not None and self.head is not None and ask.parent == self.head.id:
            self.head = None  # a failed continuation evicts its parent
        self.caller.turns.free(self, after_error=True)
