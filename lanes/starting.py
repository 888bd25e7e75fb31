"""What a create has before it starts: what a successor takes over, and what it waits for."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from lanes.errors import Fault, cancelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lanes.frames import Create
    from lanes.history.lineage import Node
    from lanes.ports import BackendSteering
    from lanes.quota import Quota, Slot
    from steering.targets import Submission


@dataclass(frozen=True, slots=True)
class Successor:
    """A create that the gateway makes to follow a steered response.

    Attributes:
        create: The create, with the settings of the steered one.
        bound: The steers it carries.
        parent: The steered response.
        after: The steering of a backend that may have sent this successor already.
        slot: The steered response's place among those of its tenant, if these are limited.
    """

    create: Create
    bound: list[Submission]
    parent: Node | None
    after: BackendSteering | None = None
    slot: Slot | None = None


class StartGate:
    """Holds the creates that wait for a store before they start, one on a lane.

    Once stopped, none goes on.
    """

    def __init__(self) -> None:
        #: Why no create starts any more.
        self.fault: Fault | None = None
        #: Whether some create must not start.
        self.shut = False
        self._scopes: dict[str | None, anyio.CancelScope] = {}
        self._cancelled: set[str | None] = set()

    def stop(self, fault: Fault) -> None:
        """End every wait with `fault`."""
        self.fault, self.shut = fault, True
        for scope in tuple(self._scopes.values()):
            scope.cancel()

    def cancel(self, lane: str | None) -> None:
        """Let the create that is about to start on this lane go no further."""
        self._cancelled.add(lane)
        self.shut = True
        if lane in self._scopes:
            self._scopes[lane].cancel()

    def check(self, create: Create) -> None:
        """Raise why this create must not start, if it must not."""
        cancels = create.stream_id in self._cancelled
        self._cancelled.discard(create.stream_id)
        self.shut = self.fault is not None or bool(self._cancelled)
        if self.fault is not None:
            raise self.fault
        if cancels:
            raise cancelled()

    async def enter(self, create: Create, quota: Quota) -> Slot:
        """Wait for the slot of a create. Raises what `check` does, and holds no slot then."""
        slot = None
        try:
            with self.waiting(create):
                slot = await quota.enter()
        except Fault:
            if slot is not None:
                slot.end(None, goes_on=False)
            raise
        assert slot is not None, "whoever cancels the waiting says why"
        return slot

    @contextmanager
    def waiting(self, create: Create) -> Iterator[None]:
        """Wrap the waiting of a create. Raises what `check` does."""
        lane = create.stream_id
        with anyio.CancelScope() as scope:
            self._scopes[lane] = scope
            try:
                yield
            finally:
                del self._scopes[lane]
        self.check(create)
