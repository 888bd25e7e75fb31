"""MACHINE: work of many keys that is done in turns, so that no key waits for another's queue."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Hands out the work of one key after the other, and each key's own in its order (D29).

    Args:
        at_once: Pieces of work that may be under way.
        per_key: Pieces of one key that may be under way.
    """

    def __init__(self, at_once: int, per_key: int) -> None:
        self._at_once = at_once
        self._per_key = per_key
        # Key -> what waits; the keys in the order of their next turns.
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()
        # Key -> how much of it is under way; no zeros.
        self._running: dict[str, int] = {}
        self._total = 0

    def put(self, key: str, work: T) -> None:
        """Let work wait for its key's turn."""
        self._waiting.setdefault(key, deque()).append(work)

    def take_ready(self) -> Iterator[tuple[str, T]]:
        """Take all that may start now, each with its key; `done` is due for each of them."""
        while self._total < self._at_once:
            key = next((key for key in self._waiting if self._may_start(key)), None)
            if key is None:
                return
            queue = self._waiting.pop(key)
            work = queue.popleft()
            if queue:
                self._waiting[key] = queue  # behind all others
            self._running[key] = self._running.get(key, 0) + 1
            self._total += 1
            yield key, work

    def done(self, key: str) -> None:
        """Count work that was taken as over."""
        self._total -= 1
        self._leave(key)

    def rest(self) -> None:
        """Let work that was taken rest: of `at_once` it is none any more, of `per_key` it is.

        So a key whose work fails again and again holds no turn that others could have. `put_back`
        is due for it, and `done` is not.
        """
        self._total -= 1

    def put_back(self, key: str, work: T) -> None:
        """Let work that rested wait for its key's next turn, ahead of the key's other work."""
        self._leave(key)
        self._waiting.setdefault(key, deque()).appendleft(work)

    def remove(self, key: str, work: T) -> None:
        """Forget work that waits, if it does. O(what waits of this key), from its end."""
        queue = self._waiting.get(key)
        if queue is None:
            return
        if queue[-1] is work:
            queue.pop()
        elif work in queue:
            queue.remove(work)
        if not queue:
            del self._waiting[key]

    def clear(self) -> None:
        """Forget all that waits."""
        self._waiting.clear()

    def _leave(self, key: str) -> None:
        self._running[key] -= 1
        if not self._running[key]:
            del self._running[key]

    def _may_start(self, key: str) -> bool:
        return self._running.get(key, 0) < self._per_key
