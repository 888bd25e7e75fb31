"""How many tokens a response took, as far as limits are about them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lanes.attempt import Attempt

#: Bytes of JSON for a token, more or less.
_BYTES_PER_TOKEN: Final = 4
#: Tokens of an item with an image or a file in base64.
_TOKENS_OF_MEDIA: Final = 1000


def tokens_of(attempt: Attempt) -> int:
    """Return how many tokens a response took: as its backend counted them, else about so many.

    A backend that was cut off, by a steer or a cancel, has counted none.
    """
    run = attempt.run
    if run.snapshots.usage is not None:
        counted: int = run.snapshots.usage["total_tokens"]
        return counted
    if attempt.stream is None:
        return 0  # no backend has begun to answer
    before = 0 if attempt.parent is None else attempt.parent.tokens or 0
    own = sum(_about(entry.data) for entry in attempt.entries)
    return before + own + (run.room.taken - run.room.left) // _BYTES_PER_TOKEN


def _about(item: bytes) -> int:
    return _TOKENS_OF_MEDIA if b";base64," in item else len(item) // _BYTES_PER_TOKEN
