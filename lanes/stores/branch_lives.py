"""How long Redis keeps the branches of stored chains: longer than whatever builds on them (D30).

A branch never outlives those that it forks off: so one look at its own life tells whether all that
a response builds on is kept for long enough, and each branch is renewed twice in a while at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from steering.redis.answers import integers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steering.redis.guard import RedisClient

#: By which share of its time a branch is kept longer than its responses need it.
_SLACK: Final = 1 / 8


class BranchLives:
    """Renews branches so that they outlive the responses in them.

    Args:
        client: The engine.
        store_ttl: Seconds that a response is kept.
    """

    def __init__(self, client: RedisClient, store_ttl: float) -> None:
        self._client: Any = client
        #: Milliseconds that a branch has to have left when a response goes into it.
        self._least = int(store_ttl * 1000)
        #: Milliseconds that a branch gets.
        self.full = int(self._least * (1 + _SLACK))
        # With less than this left a branch is renewed together with the branches on it.
        self._enough = (self._least + self.full) // 2

    async def keep(self, keys: Sequence[str], left: int) -> int:
        """Keep a branch and all that it forks off for long enough.

        Args:
            keys: The keys of the branches, the root's first, its own last.
            left: Milliseconds for which the last one is still kept.

        Returns:
            Milliseconds for which it is kept now.
        """
        if left >= self._least:
            return left
        *above, own = keys
        stale, life = await self._stale(above)
        if stale:
            pipeline = self._client.pipeline(transaction=False)
            for key in reversed(stale):
                pipeline.pexpire(key, life)
            await pipeline.execute()
        # Alone and last: it says that the others were renewed.
        await self._client.pexpire(own, life)
        return life

    async def _stale(self, above: Sequence[str]) -> tuple[list[str], int]:
        """Return the branches to renew, the nearest first, and the life to give them.

        Looks upwards, in steps that double, and stops at the first branch that was renewed not
        long ago: those above it are kept for even longer.
        """
        stale: list[str] = []
        while len(stale) < len(above):
            end = len(above) - len(stale)
            step = above[max(0, end - len(stale) - 1) : end][::-1]
            pipeline = self._client.pipeline(transaction=False)
            for key in step:
                pipeline.pttl(key)
            for key, left in zip(step, integers(await pipeline.execute(), len(step)), strict=True):
                if left >= self._enough:
                    return stale, left
                stale.append(key)
        return stale, self.full
