"""Everything a run counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from time import monotonic_ns, process_time
from typing import TYPE_CHECKING

from gateway.load.histogram import Histogram

if TYPE_CHECKING:
    from gateway.load.faults import Fault

_KEPT = 5
_SHOWN_BYTES = 500


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise, where it happened and the event that showed it."""

    fault: Fault
    connection: int
    lane: str | None
    event: str


@dataclass(slots=True)
class Tally:
    """Counters of one run; the timings leave out connections that read slowly on purpose."""

    events: int = 0
    size: int = 0  # bytes of JSON
    started: int = 0
    forks: int = 0
    open: int = 0
    began: int = 0
    ended: int = 0
    cpu_began: float = 0.0
    cpu_ended: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    first_event: Histogram = field(default_factory=Histogram)
    first_delta: Histogram = field(default_factory=Histogram)
    gap: Histogram = field(default_factory=Histogram)
    total: Histogram = field(default_factory=Histogram)

    def start(self) -> None:
        """The load begins now."""
        self.began, self.cpu_began = monotonic_ns(), process_time()

    def stop(self) -> None:
        """The load is over: the rates are taken up to here."""
        if not self.ended:
            self.ended, self.cpu_ended = monotonic_ns(), process_time()

    def blame(self, fault: Fault, connection: int, lane: str | None, event: bytes = b"") -> None:
        """Count a violation; the first few are kept with their event."""
        self.rules[fault.rule] += 1
        if len(self.violations) < _KEPT:
            text = event[:_SHOWN_BYTES].decode(errors="replace")
            cut = "…" if len(event) > _SHOWN_BYTES else ""
            self.violations.append(Violation(fault, connection, lane, text + cut))

    @property
    def broken(self) -> int:
        """Number of violations."""
        return self.rules.total()

    @property
    def finished(self) -> int:
        """Creates that got a terminal or an error."""
        return self.statuses.total()

    @property
    def seconds(self) -> float:
        """How long the load has lasted."""
        return ((self.ended or monotonic_ns()) - self.began) / 1e9 if self.began else 0.0

    @property
    def cpu(self) -> float:
        """CPU seconds this process has spent on it."""
        return (self.cpu_ended or process_time()) - self.cpu_began if self.began else 0.0
