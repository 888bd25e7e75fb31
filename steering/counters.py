"""What happened to steers and stores since the start, as plain numbers for who watches the process.

Where it happens costs a number or an entry of a list; histograms are made of these elsewhere.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field, fields
from typing import Final

#: Seconds, each of one thing that took so long, until somebody takes them out.
Samples = deque[float]
#: Samples that wait at most; they are taken out ten times a second.
_MAX_SAMPLES: Final = 65_536


def _samples() -> Samples:
    return deque(maxlen=_MAX_SAMPLES)


@dataclass(slots=True)
class StoreCounters:
    """Counts what the stores of one process did. The names are the ones that `/health` shows.

    Attributes:
        responses_stored: Responses that were written.
        responses_not_stored: Responses that were lost on the way.
        store_write_retries: Tries to write a response after the first.
        steer_verdicts_not_stored: Verdicts on submissions that were lost on the way.
        store_calls_failed: Calls that the engine refused, answered with nonsense or not in time.
        store_troubles: Times that the engine went from well to troubled.
        call_seconds: How long calls to the engine took, failed ones included.
    """

    responses_stored: int = 0
    responses_not_stored: int = 0
    store_write_retries: int = 0
    steer_verdicts_not_stored: int = 0
    store_calls_failed: int = 0
    store_troubles: int = 0
    call_seconds: Samples = field(default_factory=_samples)

    def numbers(self) -> dict[str, int]:
        """Return all counts by name."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.type == "int"}


@dataclass(slots=True)
class SteerCounters:
    """Counts what became of the steers of one process.

    Attributes:
        outcomes: How many came to each end: its state, and for failed ones the code.
        accepted: Seconds from a steer to its acceptance.
        successors: Seconds from a steer to the `response.created` of the response that carries it.
    """

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    accepted: Samples = field(default_factory=_samples)
    successors: Samples = field(default_factory=_samples)
