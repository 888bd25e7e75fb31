"""Which lane sends its next create, and when."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.tools.load.lane_checks import LaneCheck
    from gateway.tools.load.plan import LoadPlan

#: Seconds: a lane that was refused does not ask again at once.
_AFTER_ERROR = 0.1


class QueuedLane(Protocol):
    """A lane as the queue sees it; `queued` is the queue's own mark."""

    check: LaneCheck
    sent: int
    queued: bool
    over: bool

    def send(self) -> None:
        """Send the next create."""


class SendQueue:
    """Lets the lane send that has been ready longest, as often as the plan's rate allows."""

    def __init__(self, plan: LoadPlan) -> None:
        self._plan = plan
        self._loop = asyncio.get_running_loop()
        self._line: deque[QueuedLane] = deque()
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False
        #: Lanes that still send or wait for an answer.
        self.active: set[QueuedLane] = set()
        #: Resolved once no lane is active any more.
        self.done: asyncio.Future[None] = self._loop.create_future()

    def begin(self, lanes: Iterable[QueuedLane]) -> None:
        """Let all these lanes send."""
        self._due = self._loop.time()
        self._line.extend(lanes)
        self.active.update(self._line)
        for lane in self._line:
            lane.queued = True
        self._serve()

    def stop(self) -> None:
        """Start nothing new."""
        self._stopping = True
        while self._line:
            self._requeue(self._line.popleft())

    def started(self, lane: QueuedLane) -> None:
        """Queue a lane whose response has begun, if the plan sends ahead (--ahead)."""
        if self._plan.ahead and not lane.check.waiting:
            self._line_up(lane)

    def free(self, lane: QueuedLane, *, after_error: bool = False) -> None:
        """Queue a lane whose create is answered to its end, or retire it if it sends no more."""
        if after_error and self._may_send(lane) and not lane.queued:
            lane.queued = True
            self._loop.call_later(_AFTER_ERROR, self._requeue, lane)
        elif not lane.check.waiting:
            self._line_up(lane)

    def _may_send(self, lane: QueuedLane) -> bool:
        limit = self._plan.responses
        return not (self._stopping or lane.over or (limit and lane.sent >= limit))

    def _requeue(self, lane: QueuedLane) -> None:
        lane.queued = False
        self._line_up(lane)

    def _line_up(self, lane: QueuedLane) -> None:
        if self._may_send(lane):
            if not lane.queued:
                lane.queued = True
                self._line.append(lane)
                self._serve()
        elif not lane.check.unanswered():
            self.active.discard(lane)
            if not self.active and not self.done.done():
                self.done.set_result(None)

    def _serve(self) -> None:
        """Let lanes send as the rate allows; sends missed for want of a ready lane are made up."""
        rate = self._plan.rate
        while self._line and (not rate or self._due <= self._loop.time()):
            if rate:
                self._due += 1 / rate
            lane = self._line.popleft()
            lane.queued = False
            if self._may_send(lane):
                lane.send()
            else:
                self._line_up(lane)
        if self._line and self._timer is None:
            self._timer = self._loop.call_at(self._due, self._on_due)

    def _on_due(self) -> None:
        self._timer = None
        self._serve()
