"""Who sends when: each lane's turns, the rate over all of them, and the end."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.load.lane import Lane
    from gateway.load.plan import Plan

_AFTER_ERROR = 0.1  # a lane that was refused does not ask again at once


class Turns:
    """Gives a turn to the lane that has been ready longest."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._loop = asyncio.get_running_loop()
        self._line: deque[Lane] = deque()
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False
        self.active: set[Lane] = set()
        self.done: asyncio.Future[None] = self._loop.create_future()

    def begin(self, lanes: Iterable[Lane]) -> None:
        """Let all of them send."""
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

    def started(self, lane: Lane) -> None:
        """A lane's response has begun; with --ahead its next create goes out behind it."""
        if self._plan.ahead and not lane.check.waiting:
            self._line_up(lane)

    def free(self, lane: Lane, *, after_error: bool = False) -> None:
        """A lane's create is answered to its end: another turn for it, or none any more."""
        if after_error and self._may_send(lane) and not lane.queued:
            lane.queued = True
            self._loop.call_later(_AFTER_ERROR, self._requeue, lane)
        elif not lane.check.waiting:
            self._line_up(lane)

    def _may_send(self, lane: Lane) -> bool:
        limit = self._plan.responses
        return not (self._stopping or lane.over or (limit and lane.sent >= limit))

    def _requeue(self, lane: Lane) -> None:
        lane.queued = False
        self._line_up(lane)

    def _line_up(self, lane: Lane) -> None:
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
        """Give turns as the rate allows; those missed for want of a ready lane are made up."""
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
