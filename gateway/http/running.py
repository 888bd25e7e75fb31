"""The responses that run for HTTP; a gateway that stops lets them finish, or ends them."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lanes.errors import UpstreamFault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lanes.worker import Worker


class RunningResponses:
    """Counts them, and starts no more once the gateway drains."""

    def __init__(self) -> None:
        self._workers: set[Worker] = set()
        self._ending: UpstreamFault | None = None
        self._stopped: UpstreamFault | None = None

    def __len__(self) -> int:
        return len(self._workers)

    @contextmanager
    def running(self, worker: Worker) -> Iterator[None]:
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
            "The gateway is shutting down; send this request again.",
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
