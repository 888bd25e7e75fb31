"""A load run from the first connection to the last closing handshake."""

from __future__ import annotations

import asyncio
import ssl
from random import Random
from time import monotonic_ns
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gateway.tools.load.client import ConnectRefused, LoadClient
from gateway.tools.load.connection import LoadConnection
from gateway.tools.load.send_queue import SendQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.tools.load.plan import LoadPlan
    from gateway.tools.load.tally import Tally

_TICK = 0.25  # seconds
_OPENING_AT_ONCE = 32
_CLOSING = 2.0  # seconds for the closing handshakes


class LoadRun:
    """Opens the connections, watches their lanes, closes them."""

    def __init__(self, plan: LoadPlan, tally: Tally) -> None:
        self._plan = plan
        self._tally = tally
        self._queue = SendQueue(plan)
        self._connections: list[LoadConnection] = []

    async def run(self, tick: Callable[[], None]) -> None:
        """Run the whole plan and call `tick` a few times a second meanwhile.

        Raises:
            ConnectRefused: A connection could not be opened.
        """
        try:
            await self._connect()
            self._tally.start()
            # Lane by lane over all connections, so that a rate is felt by all of them.
            rounds = zip(*(one.lanes.values() for one in self._connections), strict=True)
            self._queue.begin(lane for lanes in rounds for lane in lanes)
            await self._watch(tick)
            self._tally.stop()
            await self._close()
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

        # The first alone: what keeps out one keeps out all, and no other is given up half open.
        await opened(0)
        await asyncio.gather(*(opened(number) for number in range(1, self._plan.connections)))

    async def _open(self, number: int, secure: ssl.SSLContext | None) -> None:
        plan, parts = self._plan, urlsplit(self._plan.url)
        connection = LoadConnection(number, plan, self._tally, self._queue, Random())
        slow = number < plan.slow_readers
        try:
            async with asyncio.timeout(plan.timeout):
                _, connection.client = await asyncio.get_running_loop().create_connection(
                    lambda: LoadClient(plan.url, plan.key, connection, slow=slow),
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
        while not self._queue.done.done():
            await asyncio.wait([self._queue.done], timeout=_TICK)
            tick()
            if self._plan.duration and self._tally.seconds >= self._plan.duration:
                self._queue.stop()
            now = monotonic_ns()
            for connection in self._connections:
                connection.give_up_silent(now)

    async def _close(self) -> None:
        """Close cleanly; an event that comes after all answers is still read and counted."""
        for connection in self._connections:
            connection.leaving = True
            connection.client.leave()
        await asyncio.wait([one.client.closed for one in self._connections], timeout=_CLOSING)
