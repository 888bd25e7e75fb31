"""A run from the first connection to the last goodbye."""

from __future__ import annotations

import asyncio
import ssl
from random import Random
from time import monotonic_ns
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gateway.load.caller import Caller
from gateway.load.client import Client, Refused
from gateway.load.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.load.plan import Plan
    from gateway.load.tally import Tally

_TICK = 0.25
_OPENING_AT_ONCE = 32
_GOODBYE = 2.0


class Traffic:
    """Opens the connections, keeps watch over their lanes, closes them."""

    def __init__(self, plan: Plan, tally: Tally) -> None:
        self._plan = plan
        self._tally = tally
        self._turns = Turns(plan)
        self._callers: list[Caller] = []

    async def run(self, tick: Callable[[], None]) -> None:
        """Do all of it; `tick` is called a few times a second. Raises Refused."""
        try:
            await self._connect()
            self._tally.start()
            # Lane by lane over all connections, so that a rate is felt by all of them.
            turns = zip(*(caller.lanes.values() for caller in self._callers), strict=True)
            self._turns.begin(lane for turn in turns for lane in turn)
            await self._watch(tick)
            self._tally.stop()
            await self._goodbye()
        finally:
            self._tally.stop()
            for caller in self._callers:
                caller.leaving = True
                caller.client.abort()

    async def _connect(self) -> None:
        secure = ssl.create_default_context() if self._plan.url.startswith("wss") else None
        gate = asyncio.Semaphore(_OPENING_AT_ONCE)

        async def opened(number: int) -> None:
            async with gate:
                await self._open(number, secure)

        await asyncio.gather(*(opened(number) for number in range(self._plan.connections)))

    async def _open(self, number: int, secure: ssl.SSLContext | None) -> None:
        plan, parts = self._plan, urlsplit(self._plan.url)
        caller = Caller(number, plan, self._tally, self._turns, Random())
        try:
            async with asyncio.timeout(plan.timeout):
                _, caller.client = await asyncio.get_running_loop().create_connection(
                    lambda: Client(plan.url, plan.key, caller, slow=not caller.timed),
                    parts.hostname or "",
                    parts.port or (443 if secure else 80),
                    ssl=secure,
                )
                self._callers.append(caller)
                await caller.client.opened
        except TimeoutError:
            raise Refused(f"no answer to the upgrade within {plan.timeout:g} s") from None
        except OSError as error:
            raise Refused(f"cannot connect: {error}") from error
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
                lane.caller.give_up(lane, f"no event for {limit:g} s")

    async def _goodbye(self) -> None:
        """Close cleanly; an event that comes after all answers is still seen and counted."""
        for caller in self._callers:
            caller.leaving = True
            caller.client.leave()
        await asyncio.wait([caller.client.closed for caller in self._callers], timeout=_GOODBYE)
