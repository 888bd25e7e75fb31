"""What all processes together know of a tenant, and the store of that in memory.

A process tells what it holds and all it has counted so far, never what has changed since. So a
report may arrive twice, late or not at all: the next one puts right what the last one left wrong.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.limits.limits import Limits

#: Seconds over which creates and tokens are counted.
WINDOW: Final = 60.0


@dataclass(frozen=True, slots=True)
class Report:
    """What one process says of a tenant, and what it asks for.

    Attributes:
        connections: WebSockets that it holds.
        running: Responses that it runs.
        creates: Creates that it has let in, ever.
        tokens: Tokens that its responses have taken, ever.
        known_creates: How many of those creates the store is known to have counted.
        known_tokens: How many of those tokens.
        wanted_connections: WebSockets that wait to be let in.
        wanted_creates: Creates that wait to be let in.
    """

    connections: int = 0
    running: int = 0
    creates: int = 0
    tokens: int = 0
    known_creates: int = 0
    known_tokens: int = 0
    wanted_connections: int = 0
    wanted_creates: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """How much of its limits a tenant uses, in all processes together.

    Attributes:
        connections: WebSockets.
        running: Responses.
        creates: Creates that count still: a minute wears off a limit's worth of them, evenly.
        tokens: Tokens that count still, in the same way.
    """

    connections: int = 0
    running: int = 0
    creates: float = 0.0
    tokens: float = 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to a report.

    Attributes:
        connections: How many of the wanted WebSockets may come in.
        creates: How many of the wanted creates.
        standing: What the tenant uses with these.
    """

    connections: int
    creates: int
    standing: Standing


class LimitStore(Protocol):
    """Counts for all processes.

    Attributes:
        shared: Whether there are other processes, which have to hear what this one gives back.
    """

    shared: bool

    async def report(self, tenant: str, owner: str, limits: Limits, report: Report) -> Verdict:
        """Take a report in, and decide about what it asks for. Reports of an owner come in turn.

        Args:
            tenant: Whose limits these are.
            owner: Who reports, unlike any other in any process.
            limits: The limits.
            report: What it reports.

        Raises:
            StoreUnavailable: The store is away, and may have taken the report all the same.
        """


class MemoryLimitStore:
    """A LimitStore of one process, of which each tenant has one owner at a time.

    Args:
        clock: Returns seconds that never go backwards.
    """

    shared = False

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Tenant -> creates and tokens that count still, and when that was so.
        self._used: dict[str, tuple[float, float, float]] = {}

    async def report(self, tenant: str, owner: str, limits: Limits, report: Report) -> Verdict:  # noqa: ARG002
        """Take a report in (see `LimitStore.report`)."""
        now = self._clock()
        creates, tokens, since = self._used.get(tenant, (0.0, 0.0, now))
        creates = _left(creates, limits.creates, now - since)
        tokens = _left(tokens, limits.tokens, now - since)
        before = Standing(
            report.connections,
            report.running,
            max(0.0, creates + report.creates - report.known_creates),
            max(0.0, tokens + report.tokens - report.known_tokens),
        )
        verdict = decide(limits, before, report.wanted_connections, report.wanted_creates)
        standing = verdict.standing
        if standing.creates or standing.tokens:
            self._used[tenant] = standing.creates, standing.tokens, now
        else:
            self._used.pop(tenant, None)
        return verdict


def decide(limits: Limits, before: Standing, connections: int, creates: int) -> Verdict:
    """Return how much of what is wanted there is room for. The script in Redis decides alike.

    Args:
        limits: The limits.
        before: What is used already.
        connections: WebSockets that are wanted.
        creates: Creates that are wanted.
    """
    if limits.connections is not None:
        connections = min(connections, limits.connections - before.connections)
    if limits.running is not None:
        creates = min(creates, limits.running - before.running)
    if limits.creates is not None:
        creates = min(creates, int(limits.creates - before.creates))
    if limits.tokens is not None and before.tokens >= limits.tokens:
        creates = 0
    connections, creates = max(0, connections), max(0, creates)
    return Verdict(
        connections,
        creates,
        Standing(
            before.connections + connections,
            before.running + creates,
            before.creates + creates if limits.creates is not None else 0.0,
            before.tokens if limits.tokens is not None else 0.0,
        ),
    )


def _left(used: float, limit: int | None, seconds: float) -> float:
    """Return what of a count still counts after some seconds."""
    return 0.0 if limit is None else max(0.0, used - seconds * limit / WINDOW)
