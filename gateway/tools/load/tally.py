"""What a load run counts, and percentiles of timings in bounded memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from time import monotonic_ns, process_time
from typing import TYPE_CHECKING

from gateway.tools.load.markers import Markers

if TYPE_CHECKING:
    from gateway.tools.load.response_checks import BrokenRule

_KEPT = 5
_SHOWN_BYTES = 500
_BITS = 7  # 128 buckets per doubling: a percentile is less than 1 % off


class Histogram:
    """Counts of non-negative integers (here nanoseconds) in buckets that grow with the value."""

    def __init__(self) -> None:
        self.count = 0
        self.max = 0
        self._buckets: list[int] = [0] * ((65 - _BITS) << _BITS)

    def add(self, value: int) -> None:
        """Count one value."""
        self.count += 1
        if value > self.max:
            self.max = value
        shift = value.bit_length() - _BITS - 1
        if shift > 0:
            self._buckets[(shift << _BITS) + (value >> shift)] += 1
        else:
            self._buckets[value] += 1

    def percentile(self, share: float) -> int | None:
        """Return the value that `share` (0 to 1) of all values do not exceed; None if empty."""
        if not self.count:
            return None
        wanted = max(1, -int(-share * self.count // 1))
        seen = 0
        for index, count in enumerate(self._buckets):
            seen += count
            if seen >= wanted:
                return min(_middle(index), self.max)
        return self.max


def _middle(index: int) -> int:
    """Return the middle of a bucket's values."""
    if index < 2 << _BITS:
        return index
    shift = (index >> _BITS) - 1
    low = ((1 << _BITS) + (index & ((1 << _BITS) - 1))) << shift
    return low + (1 << shift >> 1)


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule, where it was broken and the event that showed it."""

    fault: BrokenRule
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
    successors: int = 0  # responses that a steer caused
    open: int = 0
    began: int = 0
    ended: int = 0
    cpu_began: float = 0.0
    cpu_ended: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    steers: Counter[str] = field(default_factory=Counter)
    steer_failures: Counter[str] = field(default_factory=Counter)
    markers: Markers = field(default_factory=Markers)
    rules: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    first_event: Histogram = field(default_factory=Histogram)
    first_delta: Histogram = field(default_factory=Histogram)
    gap: Histogram = field(default_factory=Histogram)
    total: Histogram = field(default_factory=Histogram)
    steer_to_accepted: Histogram = field(default_factory=Histogram)
    steer_to_successor: Histogram = field(default_factory=Histogram)

    def start(self) -> None:
        """Start the clocks."""
        self.began, self.cpu_began = monotonic_ns(), process_time()

    def stop(self) -> None:
        """Stop the clocks; rates are measured up to here."""
        if not self.ended:
            self.ended, self.cpu_ended = monotonic_ns(), process_time()
            for fault, place in self.markers.finish():
                self.blame(fault, *place)

    def blame(
        self, fault: BrokenRule, connection: int, lane: str | None, event: bytes = b""
    ) -> None:
        """Count a violation, and keep the first few with their event.

        Args:
            fault: The rule that was broken.
            connection: The connection's number.
            lane: The lane's name, None for an event of no known lane.
            event: The JSON of the event.
        """
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
        """Creates that got a terminal or an error, and successors that got a terminal."""
        return self.statuses.total()

    @property
    def unfinished(self) -> int:
        """Creates and successors without their end."""
        return self.started + self.successors - self.finished

    @property
    def unsettled(self) -> int:
        """Steers that are neither committed nor failed."""
        decided = self.steers["committed"] + self.steer_failures.total()
        return self.steers["sent"] - decided

    @property
    def seconds(self) -> float:
        """How long the load has lasted, in seconds."""
        return ((self.ended or monotonic_ns()) - self.began) / 1e9 if self.began else 0.0

    @property
    def cpu(self) -> float:
        """CPU seconds that this process has spent on the load."""
        return (self.cpu_ended or process_time()) - self.cpu_began if self.began else 0.0
