"""SHELL: the half of a worker that is asked from outside: of a response that runs, or to end it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from lanes.attempt import StartGate

if TYPE_CHECKING:
    from lanes.attempt import Attempt
    from lanes.errors import UpstreamFault
    from lanes.stores.background import ResponseInput
    from steering.desk import Desk


class Stopping(ABC):
    """Ends all creates of one connection, one response, or what runs on one lane.

    Args:
        desk: The connection's steering.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
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
