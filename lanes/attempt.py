"""What a worker knows of a create while it carries it."""

from __future__ import annotations

import logging
import secrets
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lanes.errors import Fault
    from lanes.events import Stamp
    from lanes.frames import Create
    from lanes.history.entries import Entry
    from lanes.history.lineage import Node
    from lanes.ports import BackendSteering, Stream
    from lanes.stream.profile import Profile
    from lanes.stream.run import Run
    from steering.ledger import Submission

log = logging.getLogger("multilane.worker")


def mint(prefix: str) -> str:
    """A new id: the prefix and 128 random bits in hex."""
    return f"{prefix}_{secrets.token_hex(16)}"


@dataclass(frozen=True, slots=True)
class Successor:
    """A create that follows a response by itself, and the steers it carries.

    `after` may have it on the way already, if the backend steers.
    """

    create: Create
    bound: list[Submission]
    after: BackendSteering | None = None

    def forget(self) -> None:
        """It is carried, or will not be: what the backend has on the way is not waited for."""
        if self.after is not None:
            self.after.give_up()


@dataclass(slots=True, eq=False)
class Attempt:
    """A create on its way: its run, its numbering, and the scope that ends its waiting.

    `bound` are the steers in its input; `begun` says that they are committed. `after` may have its
    stream, if the backend steers.
    """

    create: Create
    run: Run
    stamp: Stamp
    parent: Node | None
    entries: tuple[Entry, ...]
    bound: list[Submission]
    after: BackendSteering | None = None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    stream: Stream | None = None
    begun: bool = False
    settled: bool = False
    since: float = field(default_factory=time.monotonic)

    @property
    def steering(self) -> BackendSteering | None:
        """How its backend is told of steers, if it takes them."""
        return None if self.stream is None else self.stream.steering


class StartGate:
    """What creates wait for before they are carried; once stopped, none waits or goes on."""

    def __init__(self) -> None:
        self._scopes: set[anyio.CancelScope] = set()
        self._fault: Fault | None = None

    def stop(self, fault: Fault) -> None:
        """End it all with `fault`."""
        self._fault = fault
        for scope in tuple(self._scopes):
            scope.cancel()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """One create waits in here. Raises the fault once stopped."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                yield
            finally:
                self._scopes.discard(scope)
        if self._fault is not None:
            raise self._fault


def note(carried: Attempt) -> None:
    """One line for whoever looks closely: which response, where, how it ended and when."""
    if log.isEnabledFor(logging.DEBUG):
        lane = carried.create.stream_id
        seconds = time.monotonic() - carried.since
        where = "the default lane" if lane is None else f"lane {lane}"
        log.debug("%s on %s: %s after %.3f s", carried.run.id, where, carried.run.state, seconds)


def unsteerable(create: Create, profile: Profile) -> str | None:
    """Why a response takes no steers; None if it does (protocol.md 5)."""
    if not profile.steerable:
        return "Responses of this backend cannot be steered."
    if create.body.get("conversation") is not None:
        return "A response that is bound to a conversation cannot be steered."
    management = create.body.get("context_management")
    if isinstance(management, list) and any(
        isinstance(entry, dict) and entry.get("type") == "compaction" for entry in management
    ):
        return "A response with automatic compaction cannot be steered."
    return None
