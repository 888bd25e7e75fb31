"""Percentiles in bounded memory: a histogram whose buckets grow with the value."""

from __future__ import annotations

_BITS = 7  # 128 buckets a doubling: a percentile is less than 1 % off


class Histogram:
    """Counts of non-negative integers (here nanoseconds), at most 8192 buckets."""

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
        """The value that `share` (0 to 1) of all values do not exceed, None when there are none."""
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
    """The middle of a bucket's values."""
    if index < 2 << _BITS:
        return index
    shift = (index >> _BITS) - 1
    low = ((1 << _BITS) + (index & ((1 << _BITS) - 1))) << shift
    return low + (1 << shift >> 1)
