"""MACHINE: which creates run now and which wait on one connection's lanes (protocol.md 1, 2).

A lane is FIFO and runs one create at a time; a connection runs at most `max_active`, all lanes
together. Every method decides at once and returns what its caller has to start (D27).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from operator import itemgetter
from typing import TYPE_CHECKING

from lanes.errors import ClientFault, IllegalTransition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lanes.frames import Create


class LaneState(StrEnum):
    """The states of a lane. The first create of a ready lane waits for a slot only."""

    IDLE = "idle"
    READY = "ready"
    RUNNING = "running"


class LaneStep(StrEnum):
    """What moves a lane."""

    CREATE = "create"
    SLOT = "slot"
    NEXT = "next"  # the run ended and creates wait behind it
    LAST = "last"  # the run ended and nothing waits
    SUCCEED = "succeed"
    CLEAR = "clear"  # what waits is taken back
    CLOSE = "close"


#: Every step a lane can take; any other is a fault of our own.
TRANSITIONS: Mapping[tuple[LaneState, LaneStep], LaneState] = {
    (LaneState.IDLE, LaneStep.CREATE): LaneState.READY,
    (LaneState.READY, LaneStep.CREATE): LaneState.READY,
    (LaneState.RUNNING, LaneStep.CREATE): LaneState.RUNNING,
    (LaneState.READY, LaneStep.SLOT): LaneState.RUNNING,
    (LaneState.RUNNING, LaneStep.NEXT): LaneState.READY,
    (LaneState.RUNNING, LaneStep.LAST): LaneState.IDLE,
    (LaneState.RUNNING, LaneStep.SUCCEED): LaneState.RUNNING,
    (LaneState.IDLE, LaneStep.CLEAR): LaneState.IDLE,
    (LaneState.READY, LaneStep.CLEAR): LaneState.IDLE,
    (LaneState.RUNNING, LaneStep.CLEAR): LaneState.RUNNING,
    (LaneState.IDLE, LaneStep.CLOSE): LaneState.IDLE,
    (LaneState.READY, LaneStep.CLOSE): LaneState.IDLE,
    (LaneState.RUNNING, LaneStep.CLOSE): LaneState.RUNNING,
}


@dataclass(slots=True, eq=False)
class _Lane:
    state: LaneState = LaneState.IDLE
    #: The creates that wait, each with its place in the order of arrival on the connection.
    queue: deque[tuple[int, Create]] = field(default_factory=deque)


class Board:
    """The lanes of one connection. Every operation but `clear`, `close` and `continues` is O(1).

    Args:
        max_active: Responses that may run at a time.
        max_named: Distinct `stream_id`s that may ever be used.
        max_queued: Creates that may wait on all lanes together.
        max_queued_bytes: Bytes of their frames.
    """

    def __init__(
        self,
        max_active: int = 16,
        max_named: int = 32,
        max_queued: int = 512,
        max_queued_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        self._max_active = max_active
        self._max_named = max_named
        self._max_queued = max_queued
        self._max_queued_bytes = max_queued_bytes
        # A lane once named stays: the limit is on distinct names per connection.
        self._lanes: dict[str | None, _Lane] = {}
        # In the order in which their heads became ready. Never filled while a slot is free.
        self._ready: list[_Lane] = []  # few, and an empty deque is large
        self._active = self._waiting = self._waiting_bytes = self._arrivals = 0
        self._closed = False

    @property
    def active(self) -> int:
        """Responses in progress."""
        return self._active

    @property
    def waiting(self) -> int:
        """Creates that have not started."""
        return self._waiting

    @property
    def waiting_bytes(self) -> int:
        """Their size as frames, in bytes."""
        return self._waiting_bytes

    @property
    def named(self) -> int:
        """Lanes used so far, the default one included."""
        return len(self._lanes)

    @property
    def lanes(self) -> Mapping[str | None, LaneState]:
        """Every lane used so far (None is the default lane) and its state: a snapshot."""
        return {stream_id: lane.state for stream_id, lane in self._lanes.items()}

    @property
    def closed(self) -> bool:
        """Whether `close` was called: then neither `submit` nor `succeed` may be."""
        return self._closed

    def continues(self, stream_id: str | None, parent_id: str) -> bool:
        """Whether a create that names this parent waits on this lane. O(what waits there)."""
        lane = self._lanes.get(stream_id)
        return lane is not None and any(create.parent_id == parent_id for _, create in lane.queue)

    def submit(self, create: Create) -> list[Create]:
        """Take a create in; return what starts now: this create or nothing.

        Raises ClientFault when it is one lane or one waiting create too many; nothing of a refused
        create stays. Raises IllegalTransition after `close`.
        """
        self._check_open()
        self._check_name(create.stream_id)
        lane = self._lanes.get(create.stream_id) or _Lane()
        if lane.state is not LaneState.IDLE or self._active >= self._max_active:
            self._check_room(create)
        self._lanes[create.stream_id] = lane
        if lane.state is LaneState.IDLE:
            self._ready.append(lane)
        self._step(lane, LaneStep.CREATE)
        lane.queue.append((self._arrivals, create))
        self._arrivals += 1
        self._waiting += 1
        self._waiting_bytes += create.size
        return self._fill()

    def finish(self, stream_id: str | None) -> list[Create]:
        """End the run on this lane, which has no successor; return what starts now, if anything.

        Raises IllegalTransition when nothing runs there.
        """
        lane = self._lanes.get(stream_id) or _Lane()
        self._step(lane, LaneStep.NEXT if lane.queue else LaneStep.LAST)
        self._active -= 1
        if lane.queue:
            # Ready from now on only, so lanes that have waited longer for a slot come first.
            self._ready.append(lane)
        return self._fill()

    def succeed(self, stream_id: str | None, successor: Create) -> None:
        """End the run on this lane: `successor` takes its slot, ahead of the lane's queue.

        Raises IllegalTransition when nothing runs there, for another lane's successor, and after
        `close`, which starts nothing more.
        """
        self._check_open()
        if successor.stream_id != stream_id:
            raise IllegalTransition(f"{successor.stream_id!r} cannot succeed on lane {stream_id!r}")
        self._step(self._lanes.get(stream_id) or _Lane(), LaneStep.SUCCEED)

    def clear(self, stream_id: str | None) -> list[Create]:
        """Take back what waits on one lane; return it in order. What runs there goes on."""
        lane = self._lanes.get(stream_id)
        if lane is None:
            return []
        if lane.state is LaneState.READY:
            self._ready.remove(lane)
        self._step(lane, LaneStep.CLEAR)
        dropped = [create for _, create in lane.queue]
        lane.queue.clear()
        self._waiting -= len(dropped)
        self._waiting_bytes -= sum(create.size for create in dropped)
        return dropped

    def close(self) -> list[Create]:
        """Start nothing more; return what was waiting, in order of arrival. Idempotent.

        What runs goes on, and each run still ends with `finish`.
        """
        dropped = sorted(
            (entry for lane in self._lanes.values() for entry in lane.queue), key=itemgetter(0)
        )
        for lane in self._lanes.values():
            self._step(lane, LaneStep.CLOSE)
            lane.queue.clear()
        self._ready.clear()
        self._waiting = self._waiting_bytes = 0
        self._closed = True
        return [create for _, create in dropped]

    def _step(self, lane: _Lane, step: LaneStep) -> None:
        try:
            lane.state = TRANSITIONS[lane.state, step]
        except KeyError:
            raise IllegalTransition(f"a lane cannot {step} while {lane.state}") from None

    def _fill(self) -> list[Create]:
        """Give the free slots to the lanes that have been ready longest."""
        started = []
        while self._ready and self._active < self._max_active:
            lane = self._ready.pop(0)
            self._step(lane, LaneStep.SLOT)
            _, create = lane.queue.popleft()
            self._active += 1
            self._waiting -= 1
            self._waiting_bytes -= create.size
            started.append(create)
        return started

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalTransition("a closed board starts nothing more")

    def _check_name(self, stream_id: str | None) -> None:
        if stream_id is None or stream_id in self._lanes:
            return
        if len(self._lanes) - (None in self._lanes) >= self._max_named:
            raise ClientFault(
                f"stream_id '{stream_id}' is one too many: a connection may use at most "
                f"{self._max_named} distinct stream_ids.",
                code="websocket_stream_limit_reached",
                param="stream_id",
            )

    def _check_room(self, create: Create) -> None:
        if (
            self._waiting >= self._max_queued
            or self._waiting_bytes + create.size > self._max_queued_bytes
        ):
            raise ClientFault(
                f"Too many responses are waiting on this connection: at most {self._max_queued} "
                f"and {self._max_queued_bytes} bytes may wait. Retry when one has finished.",
                code="too_many_queued_responses",
                status=429,
            )
