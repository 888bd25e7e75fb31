"""Says in the log what a store lost: the first of each kind, and how many there were in the end."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

#: Seconds without a loss after which what is kept again ends a spell of them.
QUIET: Final = 10.0


class LossLog:
    """Writes one line for each reason in a spell of losses, and one that counts them at its end.

    An outage of an hour loses thousands; a line for each would hide what else is in the log.

    Args:
        log: Where to write.
        what: What is lost, as `responses were not stored`.
        clock: Returns seconds.
    """

    def __init__(
        self, log: logging.Logger, what: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._what = what
        self._clock = clock
        # By reason, in this spell.
        self._counts: Counter[str] = Counter()
        self._last = 0.0

    def lost(self, reason: str, message: str, *, traced: bool = False) -> None:
        """Count a loss, and write its message if it is the first for this reason.

        Args:
            reason: Why it is lost, in words that other losses share.
            message: What is lost.
            traced: Whether the exception that is being handled belongs to the message.
        """
        self._last = self._clock()
        self._counts[reason] += 1
        if self._counts[reason] == 1:
            self._log.error("%s", message, exc_info=traced or None)

    def kept(self) -> None:
        """Note that something was kept, which ends a spell whose last loss is a while ago."""
        if self._counts and self._clock() - self._last >= QUIET:
            self.end()

    def end(self) -> None:
        """End a spell: write how many losses there were, if the lines do not say that already."""
        if self._counts.total() > len(self._counts):
            reasons = (f"{count} {reason}" for reason, count in self._counts.most_common())
            self._log.error("%d %s: %s", self._counts.total(), self._what, ", ".join(reasons))
        self._counts.clear()
