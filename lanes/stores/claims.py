"""Claims on names of requests: who answers a request that may be sent again, and with what."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds an answer is kept: 24 hours.
ANSWER_TTL: Final = 24 * 3600
#: Seconds after which a claim is free again whose owner no longer renews it.
CLAIM_TTL: Final = 30


@dataclass(frozen=True, slots=True)
class Claim:
    """Who answers the requests of one name.

    Attributes:
        owner: The request that does, as 16 hex digits.
        digest: What that request says, as 64 hex digits.
        answer: The response object, once there is one.
    """

    owner: str
    digest: str
    answer: bytes | None = None


class ClaimStore(Protocol):
    """Keeps claims by API key and name: a name of one key has nothing to do with another key's.

    Every method raises StoreUnavailable, within two seconds, when the store is away.
    """

    async def claim(self, key_id: str, name: str, claim: Claim) -> Claim:
        """Return the claim on this name, which is `claim` if there was none. Idempotent.

        Args:
            key_id: The API key that asks.
            name: Which requests are the same, in hex digits.
            claim: Who answers them if nobody does.
        """

    async def renew(self, key_id: str, name: str, claim: Claim) -> None:
        """Keep a claim for another CLAIM_TTL, also if the store has lost it meanwhile.

        Nothing, if it is another owner's by now, or has its answer.

        Args:
            key_id: The API key.
            name: The name.
            claim: The claim, without an answer.
        """

    async def finish(self, key_id: str, name: str, claim: Claim) -> None:
        """Keep an answer for ANSWER_TTL. Nothing, if the claim is another owner's by now.

        Args:
            key_id: The API key.
            name: The name.
            claim: The claim, with its answer.
        """

    async def release(self, key_id: str, name: str, owner: str) -> None:
        """Give a claim up, or forget its answer: the next request is carried out.

        Nothing, if it is another owner's.

        Args:
            key_id: The API key.
            name: The name.
            owner: The owner of the claim.
        """


class MemoryClaimStore:
    """A ClaimStore in memory.

    Args:
        max_bytes: Bytes of answers kept; beyond them the oldest are forgotten.
        clock: Returns seconds.
    """

    def __init__(
        self,
        max_bytes: int = 64 * 1024 * 1024,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_bytes = max_bytes
        self._clock = clock
        # Each claim and when it ends. Those without an answer end sooner, and their owners renew
        # them; those with one are in the order in which they end.
        self._open: dict[tuple[str, str], tuple[Claim, float]] = {}
        self._finished: OrderedDict[tuple[str, str], tuple[Claim, float]] = OrderedDict()
        self._bytes = 0

    @property
    def bytes_held(self) -> int:
        """Bytes of the kept answers."""
        return self._bytes

    async def claim(self, key_id: str, name: str, claim: Claim) -> Claim:
        """Return the claim on this name (see `ClaimStore.claim`)."""
        self._expire()
        key = key_id, name
        kept = self._finished.get(key) or self._open.get(key)
        if kept is not None and kept[1] > self._clock():
            return kept[0]
        self._open[key] = claim, self._clock() + CLAIM_TTL
        return claim

    async def renew(self, key_id: str, name: str, claim: Claim) -> None:
        """Keep a claim longer (see `ClaimStore.renew`)."""
        key = key_id, name
        if key not in self._finished and self._open.get(key, (claim, 0.0))[0] == claim:
            self._open[key] = claim, self._clock() + CLAIM_TTL

    async def finish(self, key_id: str, name: str, claim: Claim) -> None:
        """Keep an answer (see `ClaimStore.finish`)."""
        key = key_id, name
        other = self._finished.get(key) or self._open.get(key)
        if other is not None and other[0].owner != claim.owner:
            return
        self._open.pop(key, None)
        if key not in self._finished:
            self._finished[key] = claim, self._clock() + ANSWER_TTL
            self._bytes += len(claim.answer or b"")
        while self._bytes > self._max_bytes:
            self._forget(next(iter(self._finished)))

    async def release(self, key_id: str, name: str, owner: str) -> None:
        """Give a claim up (see `ClaimStore.release`)."""
        key = key_id, name
        if key in self._open and self._open[key][0].owner == owner:
            del self._open[key]
        elif key in self._finished and self._finished[key][0].owner == owner:
            self._forget(key)

    def _expire(self) -> None:
        now = self._clock()
        while self._finished:
            key, (_, end) = next(iter(self._finished.items()))
            if end > now:
                return
            self._forget(key)

    def _forget(self, key: tuple[str, str]) -> None:
        claim, _ = self._finished.pop(key)
        self._bytes -= len(claim.answer or b"")
