"""The responses that run for HTTP; a gateway that stops lets them finish, or ends them."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import anyio

from lanes.errors import UpstreamFault
from lanes.stores.background import STOPPING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from typing import Any

    from anyio.abc import TaskGroup


class Stoppable(Protocol):
    """What runs: a worker, or a request that is passed on."""

    def stop(self, fault: UpstreamFault) -> None:
        """End now, with this fault."""


class RunningResponses:
    """Counts them, and starts no more once the gateway drains.

    Keep `run` running: what goes on without its client is a task of it.
    """

    def __init__(self) -> None:
        self._workers: set[Stoppable] = set()
        self._ending: UpstreamFault | None = None
        self._stopped: UpstreamFault | None = None
        self._tasks: TaskGroup | None = None
        self._left = anyio.Event()

    def __len__(self) -> int:
        return len(self._workers)

    @property
    def stopped(self) -> bool:
        """Whether the time is over that a gateway which stops gives them."""
        return self._stopped is not None

    async def run(self) -> None:
        """Run what `start` is given until cancelled or closed."""
        try:
            async with anyio.create_task_group() as self._tasks:
                await anyio.sleep_forever()
        finally:
            self._left.set()

    async def aclose(self) -> None:
        """End what still goes on, and wait for that: it must not ask a store that closes."""
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
            await self._left.wait()

    def start(self, function: Callable[..., Coroutine[Any, Any, None]], *args: object) -> None:
        """Start what goes on whether or not a client waits for it."""
        assert self._tasks is not None, "the gateway does not run"
        self._tasks.start_soon(function, *args)

    @contextmanager
    def running(self, worker: Stoppable) -> Iterator[None]:
        """Wrap the work on one response."""
        self._workers.add(worker)
        if self._stopped is not None:
            worker.stop(self._stopped)
        try:
            yield
        finally:
            self._workers.discard(worker)

    def check(self) -> None:
        """Raise the fault of a gateway that starts nothing more."""
        if self._ending is not None:
            raise self._ending

    def drain(self, timeout: float) -> None:
        """Start nothing more, and fail what still runs after `timeout` seconds."""
        self._ending = UpstreamFault(
            STOPPING,
            code="server_shutting_down",
            status=503,
            type="server_error",
            headers={"retry-after": "5"},
        )
        asyncio.get_running_loop().call_later(timeout, self._stop, self._ending)

    def _stop(self, fault: UpstreamFault) -> None:
        self._stopped = fault
        for worker in tuple(self._workers):
            worker.stop(fault)
