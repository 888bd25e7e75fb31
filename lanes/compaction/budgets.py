"""Pure: how much of a history a compaction keeps, so that the next turn need not compact again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: Bytes of text that are kept of the system's messages, and at most of the user's, of what comes
#: behind the summary, and of the summary: 20,000 tokens each, more or less.
TEXT_BUDGET: Final = 80_000
#: The least of that, however low the threshold is: 500 tokens.
_LEAST: Final = 2_000
#: Bytes of text that a word of a summary takes, with room for a model that counts badly.
_BYTES_PER_WORD: Final = 10
#: The part of the threshold that has to be new since the last summary.
_NEW: Final = 8


@dataclass(frozen=True, slots=True)
class CompactionBudgets:
    """What one compaction may keep.

    With a threshold the summary, the user's messages and what comes behind have a quarter of it
    each, at four bytes a token.

    Attributes:
        threshold: Tokens beyond which a history is compacted; None if the client asked for it.
    """

    threshold: int | None = None

    @property
    def text(self) -> int:
        """Bytes of text that are kept of each kind but the system's messages."""
        return TEXT_BUDGET if self.threshold is None else min(TEXT_BUDGET, self._quarter)

    @property
    def words(self) -> int | None:
        """How long the model is told that its summary may be; None if it may decide that."""
        return None if self.threshold is None else self.text // _BYTES_PER_WORD

    def pays(self, fresh: int | None, share: float = 1.0) -> bool:
        """Return whether a history has enough that is new to be compacted again.

        Where instructions and tools alone are near the threshold, each turn would do it otherwise.

        Args:
            fresh: About how many tokens came since the last summary; None if there is none.
            share: How many tokens the backend counts for one of these.
        """
        return fresh is None or fresh * share * _NEW >= (self.threshold or 0)

    @property
    def _quarter(self) -> int:
        return max(_LEAST, self.threshold or 0)
