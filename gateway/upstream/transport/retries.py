"""Trying again what failed before anything of its answer was passed on."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, TypeVar

from gateway.upstream.transport.faults import TransientFault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_FIRST_BACKOFF = 0.1
_MAX_PAUSE = 3.0

Answer = TypeVar("Answer")


async def retried(attempt: Callable[[], Awaitable[Answer]], retries: int) -> Answer:
    """The first answer of up to `retries` + 1 attempts; what is no Transient is raised at once."""
    backoff = _FIRST_BACKOFF
    for _ in range(retries):
        try:
            return await attempt()
        except TransientFault as fault:
            if fault.pause is not None and fault.pause > _MAX_PAUSE:
                raise
            # Spread, so that lanes that failed together do not come back together.
            pause = backoff * random.uniform(0.5, 1.5) if fault.pause is None else fault.pause
        await asyncio.sleep(pause)
        backoff *= 2
    return await attempt()
