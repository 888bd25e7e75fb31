"""Bytes from a server -> whole WebSocket messages, at any cut. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_TEXT = 0x81  # and the end of its message
_MASKED = 0x80
_FIN = 0x80
_CONTINUATION = 0x0
_DATA = (0x1, 0x2)
#: Bytes at either end of what is too large that are looked at: they tell whose it is.
EDGE = 1024


class TooLarge(ValueError):
    """A frame is larger than allowed."""


class FrameSplitter:
    """Takes text messages out of their frames; the token path, so nothing else is looked at.

    Every other frame, whole, goes to `other`, which returns the messages that end with it. A
    payload has at most `limit` bytes. A text over it is skipped, and its two ends go to `large`;
    for anything else TooLarge is raised.
    """

    def __init__(
        self,
        limit: int,
        other: Callable[[bytes], list[bytes]],
        large: Callable[[bytes, bytes], None],
    ) -> None:
        self._limit = limit
        self._other = other
        self._large = large
        self._skipping = 0
        self._first = self._last = b""
        # The beginning of a frame that is not whole yet, read by read.
        self._kept: list[bytes] = []
        self._have = self._need = 0
        self._fragmented = False

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that are whole with this read, in order."""
        if self._skipping:
            data = self._skip(data)
        elif self._kept:
            data = self._joined(data)
        found: list[bytes] = []
        at, end = 0, len(data)
        while at < end:
            if at + 4 <= end and data[at + 1] == 126:  # nearly all events are of such a size
                start = at + 4
                stop = start + (data[at + 2] << 8 | data[at + 3])
            else:
                start, stop = self._bounds(data, at, end)
            if stop - start > self._limit:
                data = self._begin_skip(data, at, start, stop)
                at, end = 0, len(data)
                continue
            if stop > end:
                self._keep(data[at:], stop - at)
                break
            if data[at] == _TEXT and data[at + 1] < _MASKED and not self._fragmented:
                found.append(data[start:stop])
            else:
                found += self._special(data[at:stop])
            at = stop
        return found

    def _bounds(self, data: bytes, at: int, end: int) -> tuple[int, int]:
        """Where a payload starts and stops; beyond `end` where its header is not whole."""
        size = data[at + 1] & ~_MASKED if at + 2 <= end else 0
        start = at + {126: 4, 127: 10}.get(size, 2)
        if start > end:
            return start, start
        if size > 125:
            size = int.from_bytes(data[at + 2 : start], "big")
        if data[at + 1] & _MASKED:
            size += 4  # its key; no server may send one, which `other` will say
        return start, start + size

    def _begin_skip(self, data: bytes, at: int, start: int, stop: int) -> bytes:
        if data[at] != _TEXT or data[at + 1] >= _MASKED or self._fragmented:
            raise TooLarge
        self._skipping = stop - start
        self._first = self._last = b""
        return self._skip(data[start:])

    def _skip(self, data: bytes) -> bytes:
        """Pass over what is too large; what is left of the read."""
        passed = data[: self._skipping]
        self._skipping -= len(passed)
        self._first += passed[: EDGE - len(self._first)]
        self._last = (self._last + passed[-EDGE:])[-EDGE:]
        if not self._skipping:
            self._large(self._first, self._last)
        return data[len(passed) :]

    def _joined(self, data: bytes) -> bytes:
        """What was kept and this, once that is a whole frame; nothing before."""
        self._kept.append(data)
        self._have += len(data)
        if self._have < self._need:
            return b""
        whole = b"".join(self._kept)
        self._kept.clear()
        return whole

    def _keep(self, data: bytes, need: int) -> None:
        self._kept.append(data)
        self._have, self._need = len(data), need

    def _special(self, frame: bytes) -> list[bytes]:
        opcode, fin = frame[0] & 0x0F, bool(frame[0] & _FIN)
        if opcode in _DATA and not fin:
            self._fragmented = True
        elif opcode == _CONTINUATION and fin:
            self._fragmented = False
        return self._other(frame)
