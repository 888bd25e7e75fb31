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
    try:
        return await attempt()
    except TransientFault as fault:
        return await retry_after(fault, attempt, retries)


async def retry_after(
    fault: TransientFault, attempt: Callable[[], Awaitable[Answer]], retries: int
) -> Answer:
    """Return the first answer of up to `retries` more attempts.

    Args:
        fault: What the first attempt failed with.
        attempt: Makes one attempt.
        retries: How many attempts may follow the first one.

    Raises:
        UpstreamFault: The last attempt failed, or one of them for good.
    """
    backoff = _FIRST_BACKOFF
    try:
        for _ in range(retries):
            if fault.pause is not None and fault.pause > _MAX_PAUSE:
                break
            # At random, so that lanes that failed together do not come back together.
            pause = backoff * random.uniform(0.5, 1.5) if fault.pause is None else fault.pause
            await asyncio.sleep(pause)
            backoff *= 2
            try:
                return await attempt()
            except TransientFault as again:
                fault = again
        raise fault
    finally:
        del fault  # or the fault, its traceback and this frame would hold each other
