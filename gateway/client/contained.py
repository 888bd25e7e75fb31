"""Tasks that end without a word when their task group is cancelled."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any


async def contained(function: Callable[..., Coroutine[Any, Any, None]], *args: object) -> None:
    """Run one task of a group, and end without a word when the group is cancelled.

    A task that ends as cancelled leaves its frames in a reference cycle of the task group's (D13).
    """
    with suppress(asyncio.CancelledError):
        await function(*args)
