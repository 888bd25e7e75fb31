"""SHELL: the half of a worker that is asked from outside: of a response that runs, or to end it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from lanes.errors import own_fault
from lanes.observer import NobodyWatches
from lanes.starting import StartGate

if TYPE_CHECKING:
    from lanes.attempt import Attempt
    from lanes.errors import Fault, UpstreamFault
    from lanes.frames import Create
    from lanes.observer import ResponseObserver
    from lanes.ports import Outbox
    from lanes.starting import Successor
    from lanes.stores.background import ResponseInput
    from steering.desk import Desk
    from steering.targets import Submission


class Stopping(ABC):
    """Ends all creates of one connection, one response, what runs on one lane, or what failed.

    Args:
        desk: The connection's steering.
        outbox: The connection's writer.
        observer: Hears how its responses end.
    """

    def __init__(self, desk: Desk, outbox: Outbox, observer: ResponseObserver | None) -> None:
        self._desk = desk
        self._outbox = outbox
        self._observer = observer or NobodyWatches()
        self._attempts: set[Attempt] = set()
        self._gate = StartGate()

    @abstractmethod
    def _record_end(self, attempt: Attempt) -> None:
        """Keep the ended run as a parent, or forget the parent it failed on. Idempotent."""

    def made_from(self, response_id: str) -> ResponseInput | None:
        """Return what a response is made from; None if no such response runs."""
        running = (one.made_from for one in self._attempts if one.run.id == response_id)
        return next(running, None)

    def stop(self, fault: UpstreamFault) -> None:
        """End every running response now: `response.failed` if it had begun, else an error."""
        self._gate.stop(fault)
        for attempt in tuple(self._attempts):
            attempt.run.fail(fault)
            attempt.scope.cancel()

    def cancel(self, response_id: str, status: str = "incomplete") -> bool:
        """End a response here and now, with the output so far; its steers go back (protocol.md 5).

        `status` is what its final object says. Returns False if no such response runs.
        """
        running = (one for one in self._attempts if one.run.id == response_id)
        attempt = next((one for one in running if not one.run.over), None)
        if attempt is not None:
            self._end_cancelled(attempt, status)
        return attempt is not None

    def cancel_lane(self, lane: str | None) -> None:
        """End what runs on a lane, or is about to; call it only while something does.

        A create that waits for a store gets an error; a response that is over no successor.
        """
        attempt = next((one for one in self._attempts if one.create.stream_id == lane), None)
        if attempt is not None:
            self._end_cancelled(attempt)
        else:
            self._gate.cancel(lane)

    def _end_cancelled(self, attempt: Attempt, status: str = "incomplete") -> None:
        attempt.cancelled = True
        if not attempt.run.over:
            attempt.run.cancel(status)
            # Before the terminal event leaves, so that whoever reads it can build on it.
            self._record_end(attempt)
            self._desk.fail_target(attempt.run.id, "was cancelled")
            attempt.hang_up()

    def forgo(self, successor: Successor, why: str) -> None:
        """Give a successor up: its steers go back with this reason."""
        if successor.after is not None:
            successor.after.give_up()
        if successor.slot is not None:
            successor.slot.end(None, goes_on=False)
        self._desk.fail(successor.bound, why)

    def _break(self, create: Create, bound: list[Submission], attempt: Attempt | None) -> None:
        fault = own_fault("The gateway failed on this request.")
        if attempt is not None and attempt.end_broken(fault):
            self._desk.fail_target(attempt.run.id)
            self._desk.fail(bound, fault.message)
        else:
            self._refuse(create, bound, fault)
        if attempt is None:
            self._observer.refuse(create, fault)

    def _refuse_start(self, create: Create, bound: list[Submission], fault: Fault) -> None:
        """End a create that became no response (see `_refuse`)."""
        self._refuse(create, bound, fault)
        self._observer.refuse(create, fault)
        if not create.follows:
            self._desk.disclaim(create.parent_id, create.stream_id)

    def _refuse(self, create: Create, bound: list[Submission], fault: Fault) -> None:
        """End a create that has sent nothing: an error if a client asked; its steers go back."""
        self._desk.fail(bound, fault.message)
        if not create.follows:
            self._outbox.error(fault, create.stream_id)
