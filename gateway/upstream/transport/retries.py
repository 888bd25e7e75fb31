"""Repeated attempts at a request while nothing of its answer was relayed."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Final, TypeVar

from gateway.upstream.transport.faults import TransientFault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

#: Seconds after a request was sent in which its connection may break because the backend had closed
#: it before it heard of the request: one round trip, a slow one at that (D28).
MOMENT: Final = 1.0

_FIRST_BACKOFF = 0.1
_MAX_PAUSE = 3.0

Answer = TypeVar("Answer")


async def retry(attempt: Callable[[], Awaitable[Answer]], retries: int) -> Answer:
    """Return the first answer of up to `retries` + 1 attempts.

    Raises any fault but a TransientFault at once, and the last one after all attempts.
    """
    backoff = _FIRST_BACKOFF
    for _ in range(retries):
        try:
            return await attempt()
        except TransientFault as fault:
            if fault.pause is not None and fault.pause > _MAX_PAUSE:
                raise
            # At random, so that lanes that failed together do not come back together.
            pause = backoff * random.uniform(0.5, 1.5) if fault.pause is None else fault.pause
        await asyncio.sleep(pause)
        backoff *= 2
    return await attempt()
