"""Visits to a gateway, one after the other, of peers of every kind."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx2
from websockets.exceptions import WebSocketException

from bench.hostile_peers import PEERS
from bench.http_visitors import VISITORS, WrongAnswer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Visit = Callable[[int], Awaitable[None]]

#: Seconds a visit may take.
_LONGEST = 90.0
#: What a peer has to expect of a gateway that hangs up.
_HUNG_UP = (OSError, EOFError, asyncio.LimitOverrunError)


@dataclass(slots=True)
class Visits:
    """What came of all visits of a round.

    Attributes:
        counts: Visits that began, by the peer's name.
        wrong: What was answered wrongly.
    """

    counts: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def peers(self, port: int) -> list[asyncio.Task[None]]:
        """Have peers of every kind come again and again; returns their tasks, to be cancelled."""
        hostile = (self._again(one, port) for one, number in PEERS.items() for _ in range(number))
        kind = (self._checked(one, port) for one, number in VISITORS.items() for _ in range(number))
        return [asyncio.create_task(one) for one in (*hostile, *kind)]

    async def _again(self, visit: Visit, port: int) -> None:
        while True:
            self._count(visit)
            with suppress(TimeoutError, *_HUNG_UP):
                async with asyncio.timeout(_LONGEST):
                    await visit(port)
            await asyncio.sleep(0.05)

    async def _checked(self, visit: Visit, port: int) -> None:
        while True:
            self._count(visit)
            try:
                async with asyncio.timeout(_LONGEST):
                    await visit(port)
            except (WrongAnswer, TimeoutError, httpx2.HTTPError, WebSocketException, OSError) as no:
                self.wrong.append(f"{visit.__name__}: {type(no).__name__} {no}")
            await asyncio.sleep(0.05)

    def _count(self, visit: Visit) -> None:
        name = visit.__name__
        self.counts[name] = self.counts.get(name, 0) + 1
