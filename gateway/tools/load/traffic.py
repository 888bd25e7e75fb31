"""A run from the first connection to the last goodbye, and whose turn it is to send meanwhile."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from random import Random
from time import monotonic_ns
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gateway.tools.load.client import ConnectRefused, LoadClient
from gateway.tools.load.connection import LoadConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gateway.tools.load.lane import LoadLane
    from gateway.tools.load.plan import LoadPlan
    from gateway.tools.load.tally import Tally

_TICK = 0.25
_OPENING_AT_ONCE = 32
_GOODBYE = 2.0
_AFTER_ERROR = 0.1  # a lane that was refused does not ask again at once


class LoadRun:
    """Opens the connections, keeps watch over their lanes, closes them."""

    def __init__(self, plan: LoadPlan, tally: Tally) -> None:
        self._plan = plan
        self._tally = tally
        self._turns = SendQueue(plan)
        self._connections: list[LoadConnection] = []

    async def run(self, tick: Callable[[], None]) -> None:
        """Do all of it; `tick` is called a few times a second. Raises Refused."""
        try:
            await self._connect()
            self._tally.start()
            # Lane by lane over all connections, so that a rate is felt by all of them.
            turns = zip(*(one.lanes.values() for one in self._connections), strict=True)
            self._turns.begin(lane for turn in turns for lane in turn)
            await self._watch(tick)
            self._tally.stop()
            await self._goodbye()
        finally:
            self._tally.stop()
            for connection in self._connections:
                connection.leaving = True
                connection.client.abort()

    async def _connect(self) -> None:
        secure = ssl.create_default_context() if self._plan.url.startswith("wss") else None
        gate = asyncio.Semaphore(_OPENING_AT_ONCE)

        async def opened(number: int) -> None:
            async with gate:
                await self._open(number, secure)

        await asyncio.gather(*(opened(number) for number in range(self._plan.connections)))

    async def _open(self, number: int, secure: ssl.SSLContext | None) -> None:
        plan, parts = self._plan, urlsplit(self._plan.url)
        connection = LoadConnection(number, plan, self._tally, self._turns, Random())
        try:
            async with asyncio.timeout(plan.timeout):
                _, connection.client = await asyncio.get_running_loop().create_connection(
                    lambda: LoadClient(plan.url, plan.key, connection, slow=not connection.timed),
                    parts.hostname or "",
                    parts.port or (443 if secure else 80),
                    ssl=secure,
                )
                self._connections.append(connection)
                await connection.client.opened
        except TimeoutError:
            raise ConnectRefused(f"no answer to the upgrade within {plan.timeout:g} s") from None
        except OSError as error:
            raise ConnectRefused(f"cannot connect: {error}") from error
        self._tally.open += 1

    async def _watch(self, tick: Callable[[], None]) -> None:
        while not self._turns.done.done():
            await asyncio.wait([self._turns.done], timeout=_TICK)
            tick()
            if self._plan.duration and self._tally.seconds >= self._plan.duration:
                self._turns.stop()
            self._give_up_silent()

    def _give_up_silent(self) -> None:
        now, limit = monotonic_ns(), self._plan.timeout
        for lane in list(self._turns.active):
            unanswered = lane.check.unanswered()
            if unanswered and now - unanswered[0].last > limit * 1e9:
                lane.connection.give_up(lane, f"no event for {limit:g} s")

    async def _goodbye(self) -> None:
        """Close cleanly; an event that comes after all answers is still seen and counted."""
        for connection in self._connections:
            connection.leaving = True
            connection.client.leave()
        await asyncio.wait([one.client.closed for one in self._connections], timeout=_GOODBYE)


class SendQueue:
    """Gives a turn to the lane that has been ready longest."""

    def __init__(self, plan: LoadPlan) -> None:
        self._plan = plan
        self._loop = asyncio.get_running_loop()
        self._line: deque[LoadLane] = deque()
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False
        self.active: set[LoadLane] = set()
        self.done: asyncio.Future[None] = self._loop.create_future()

    def begin(self, lanes: Iterable[LoadLane]) -> None:
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

    def started(self, lane: LoadLane) -> None:
        """A lane's response has begun; with --ahead its next create goes out behind it."""
        if self._plan.ahead and not lane.check.waiting:
            self._line_up(lane)

    def free(self, lane: LoadLane, *, after_error: bool = False) -> None:
        """A lane's create is answered to its end: another turn for it, or none any more."""
        if after_error and self._may_send(lane) and not lane.queued:
            lane.queued = True
            self._loop.call_later(_AFTER_ERROR, self._requeue, lane)
        elif not lane.check.waiting:
            self._line_up(lane)

    def _may_send(self, lane: LoadLane) -> bool:
        limit = self._plan.responses
        return not (self._stopping or lane.over or (limit and lane.sent >= limit))

    def _requeue(self, lane: LoadLane) -> None:
        lane.queued = False
        self._line_up(lane)

    def _line_up(self, lane: LoadLane) -> None:
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
