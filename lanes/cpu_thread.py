"""One thread for work that would hold up the event loop.

The interpreter's lock goes from thread to thread every few milliseconds, but never within one call
of a C function. So what runs here consists of short calls, and then the loop waits for none of it.
One thread serves all connections: more of them would leave the loop a smaller share (D33).
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_R = TypeVar("_R")

_EXECUTOR = ThreadPoolExecutor(1, thread_name_prefix="multilane-cpu")


async def run_in_cpu_thread(function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Return what a pure function returns, in turn with those that were asked for before.

    Args:
        function: The function.
        args: Its arguments.
        kwargs: Its arguments by name.
    """
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_EXECUTOR, lambda: function(*args, **kwargs))
