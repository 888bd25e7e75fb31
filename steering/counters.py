"""What happened to the stores since the start, as numbers for whoever watches the process."""

from __future__ import annotations

from dataclasses import asdict, dataclass


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
    """

    responses_stored: int = 0
    responses_not_stored: int = 0
    store_write_retries: int = 0
    steer_verdicts_not_stored: int = 0
    store_calls_failed: int = 0
    store_troubles: int = 0

    def numbers(self) -> dict[str, int]:
        """Return all counts by name."""
        return asdict(self)
